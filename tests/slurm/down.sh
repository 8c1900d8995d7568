#!/usr/bin/env bash
# Ends the cluster of the tests before.
source "$(dirname "$0")/lib.sh"
"$slurm_sh" down
