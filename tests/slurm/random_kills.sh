#!/usr/bin/env bash
# Two random faults to one job, as `./make.sh drills random_kills` does fifty times; three losses of ranks and nodes, as
# random_losses does two hundred times.
source "$(dirname "$0")/lib.sh"
use_cluster
python3 "$ECHELON_SOURCE_DIR/tests/drills/random_kills.py" --work "$work" --kills 2 --seed 5
python3 "$ECHELON_SOURCE_DIR/tests/drills/random_kills.py" --work "$work" --losses --kills 3 --seed 2
