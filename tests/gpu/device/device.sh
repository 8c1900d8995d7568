#!/usr/bin/env bash
# Tries the GPU half on this machine, in three stages of at most nine minutes: ./device.sh STAGE [--results DIR].
# Needs a driver, glibc 2.36 or newer and a python3 (or $PYTHON) with torch; `./device.sh --help` tells the rest.
set -euo pipefail
exec "${PYTHON:-python3}" -B "$(dirname "${BASH_SOURCE[0]}")/device.py" "$@"
