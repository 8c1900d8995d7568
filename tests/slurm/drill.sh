#!/usr/bin/env bash
# Two drills of tests/drills, short enough for every run of the tests: kill -9 of a rank, and the loss of a node that a
# spare one replaces. The ranks start again in place, and the job ends with the weights of a run that nobody disturbed.
source "$(dirname "$0")/lib.sh"
use_cluster
python3 "$ECHELON_SOURCE_DIR/tests/drills/drills.py" --work "$work" --untimed rank_killed node_failed_spare
