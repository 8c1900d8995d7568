#!/usr/bin/env bash
# From the command to the first step at 179 M parameters; see start.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec python3 tests/bench/start.py --echelon build/release/bin/echelon "$@"
