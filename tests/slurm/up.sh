#!/usr/bin/env bash
# Starts the cluster of the tests that follow.
source "$(dirname "$0")/lib.sh"
"$slurm_sh" up 4
