#!/usr/bin/env bash
# The memory table of the MNIST tutorial, and accuracy after training; see mnist_memory.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec .venv-test/bin/python tests/bench/mnist_memory.py "$@"
