#!/usr/bin/env bash
# Eight tasks over four nodes: every one is a PMIx client of one and the same job, two on each node.
# shellcheck disable=SC2016
source "$(dirname "$0")/lib.sh"
use_cluster

show='echo "$PMIX_RANK $SLURM_PROCID $(uname -n) $PMIX_NAMESPACE ${PMIX_SERVER_URI4:+server}"'
srun --nodes=4 --ntasks=8 --mpi=pmix bash -c "$show" | sort -n >tasks.txt
job=$(head -n 1 tasks.txt | cut -d' ' -f4)
expect_match "PMIx namespace" '^slurm\.pmix\.[0-9]+\.0$' "$job" tasks.txt
for rank in 0 1 2 3 4 5 6 7; do echo "$rank $rank n$((rank / 2)) $job server"; done >expected.txt
diff expected.txt tasks.txt || fail "PMIx rank, Slurm rank, node, PMIx namespace or PMIx server differ"

# Each node is a machine of its own: name, address, /tmp, /dev/shm.
srun --nodes=4 --ntasks=4 bash -c 'touch "/tmp/of-$(uname -n)" "/dev/shm/of-$(uname -n)"'
show='cd / && echo $(uname -n) $(getent hosts "$(uname -n)") tmp/of-* dev/shm/of-*'
srun --nodes=4 --ntasks=4 bash -c "$show" | sort >nodes.txt
for i in 0 1 2 3; do
  echo "n$i ${ECHELON_SLURM_NET:-10.77.0}.1$i n$i tmp/of-n$i dev/shm/of-n$i"
done >expected.txt
diff expected.txt nodes.txt || fail "the nodes share what they must not share"
