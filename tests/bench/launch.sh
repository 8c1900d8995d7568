#!/usr/bin/env bash
# Launch latency; see launch.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec .venv-test/bin/python tests/bench/launch.py --echelon build/release/bin/echelon --python .venv-test/bin/python "$@"
