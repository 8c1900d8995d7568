#!/usr/bin/env bash
# Training speed and memory beside PyTorch FSDP2; see train_llama.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec .venv-test/bin/python tests/bench/train_llama.py --echelon build/release/bin/echelon --python .venv-test/bin/python "$@"
