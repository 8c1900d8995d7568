#!/usr/bin/env bash
# A small T5 learns to summarise the docstrings inside the torch package; see docstring_summaries.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec .venv-test/bin/python tests/bench/docstring_summaries.py "$@"
