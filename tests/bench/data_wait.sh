#!/usr/bin/env bash
# The share of a step that training waits for its data; see data_wait.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cmake --build build/release --target loader_bench >/dev/null
exec .venv-test/bin/python tests/bench/data_wait.py --writer "$(find build/release -name loader_bench -type f)" "$@"
