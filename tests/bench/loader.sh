#!/usr/bin/env bash
# Tokens a second and core of the loader beside torch's DataLoader; see loader.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cmake --build build/release --target loader_bench >/dev/null
exec .venv-test/bin/python tests/bench/loader.py --ours "$(find build/release -name loader_bench -type f)" "$@"
