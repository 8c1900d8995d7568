#!/usr/bin/env bash
# Training speed and memory of T5 beside PyTorch FSDP1; see train_t5.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec .venv-test/bin/python tests/bench/train_t5.py --echelon build/release/bin/echelon --python .venv-test/bin/python "$@"
