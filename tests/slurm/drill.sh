#!/usr/bin/env bash
# One drill of tests/drills, short enough for every run of the tests: kill -9 of a rank. The job names it, comes back and
# ends with the weights of a run that nobody disturbed.
source "$(dirname "$0")/lib.sh"
use_cluster
python3 "$ECHELON_SOURCE_DIR/tests/drills/drills.py" --work "$work" rank_killed
