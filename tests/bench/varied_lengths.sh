#!/usr/bin/env bash
# Memory of bf16 training where lengths vary; see varied_lengths.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec python3 tests/bench/varied_lengths.py --echelon build/release/bin/echelon "$@"
