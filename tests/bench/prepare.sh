#!/usr/bin/env bash
# Tokens a second of `echelon prepare` beside the packages tokenizers and sentencepiece; see prepare.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec .venv-test/bin/python tests/bench/prepare.py "$@"
