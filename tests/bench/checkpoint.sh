#!/usr/bin/env bash
# Saving, loading and resharding beside torch.distributed.checkpoint and what memory and disk give; see checkpoint.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cmake --build build/release --target checkpoint_bench >/dev/null
exec .venv-test/bin/python tests/bench/checkpoint.py --ours "$(find build/release -name checkpoint_bench -type f)" "$@"
