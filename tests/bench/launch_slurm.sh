#!/usr/bin/env bash
# Launch of 2 to 64 ranks over four nodes of a local Slurm cluster of its own; see launch_slurm.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if ((EUID != 0)); then
  echo "launch_slurm.sh: left out: the local Slurm cluster needs root" >&2
  exit 0
fi
mkdir -p build/release/bench
mpicc -O2 tests/bench/mpi_hello.c -o build/release/bench/mpi_hello
export ECHELON_SLURM_DIR=/var/lib/echelon-slurm-bench ECHELON_SLURM_NET=10.84.0 ECHELON_SLURM_CPUS=16
exec cluster/local/slurm.sh run 4 -- python3 tests/bench/launch_slurm.py --echelon build/release/bin/echelon \
  --hello build/release/bench/mpi_hello "$@"
