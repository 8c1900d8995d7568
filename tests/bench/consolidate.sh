#!/usr/bin/env bash
# Consolidation beside cp and PyTorch's dcp_to_torch; see consolidate.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cmake --build build/release --target echelon-ckpt make_bench_checkpoint >/dev/null
exec .venv-test/bin/python tests/bench/consolidate.py --tool build/release/bin/echelon-ckpt \
  --make "$(find build/release -name make_bench_checkpoint -type f)" "$@"
