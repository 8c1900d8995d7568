#!/usr/bin/env bash
# Host time a unit and pass beside PyTorch FSDP2; see unit_cost.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec .venv-test/bin/python tests/bench/unit_cost.py "$@"
