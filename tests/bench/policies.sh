#!/usr/bin/env bash
# Time and memory of each strategy, policy and precision; see policies.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec .venv-test/bin/python tests/bench/policies.py "$@"
