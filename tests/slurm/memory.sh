#!/usr/bin/env bash
# Checkpoints in memory: a rank of n1 dies, and the step starts again at once with n3 in place of n1. The state comes from
# the memory of n0 and n2, and the weights at the end are those of a run that nobody disturbed.
source "$(dirname "$0")/lib.sh"
use_cluster
run=$work/run
settings=(train.steps=90 train.global_batch_size=6 checkpoint.every_steps=0)

step() {  # step NODES RUN_DIR [KEY=VALUE...]
  srun --jobid="$job" --overlap --nodelist="$1" --nodes=3 --ntasks-per-node=1 --mpi=pmix --kill-on-bad-exit=1 \
    "$ECHELON_BIN" train "$tiny_yaml" "${settings[@]}" run.dir="$2" "${@:3}"
}
memory_of() { "$slurm_sh" exec "$1" find /dev/shm -path '*/run-*' -name '*.h5'; }

job=$(sbatch --parsable --output=/dev/null --nodes=4 --ntasks-per-node=1 --oversubscribe --wrap 'sleep 600')
trap 'scancel "$job"' EXIT
wait_for 60 "the allocation" job_is "$job" RUNNING

# Rank 1 dies in its third save, when all ranks know that the one before is whole. Which steps are saved hangs on how
# busy the machine is: a save that is due while the last one is on its way is left out.
ECHELON_KILL_POINT=staged:1:3 step n0,n1,n2 "$run" checkpoint.memory_every_steps=5 >killed.txt 2>&1 &&
  fail "a rank was killed, and the step ended well" killed.txt
[[ -n $(memory_of n0) ]] || fail "nothing is in the memory of n0" killed.txt
expect_equal "checkpoints on disk" "" "$(ls "$run/checkpoints")" killed.txt

step n0,n2,n3 "$run" checkpoint.memory_every_steps=5 >resumed.txt 2>&1 || fail "the second start" resumed.txt
expect_match "where it resumed" 'resumed from step [1-9][05]+ \(memory of nodes n0, n2\)' "$(cat resumed.txt)"
step n0,n1,n2 "$work/undisturbed" >undisturbed.txt 2>&1 || fail "the undisturbed run" undisturbed.txt
"$ECHELON_CKPT_BIN" diff "$run" "$work/undisturbed" >diff.txt 2>&1 || fail "the weights differ" diff.txt resumed.txt

# n1 took no part in the second start: what it holds is removed by hand.
for node in n0 n2 n3; do expect_equal "left in the memory of $node" "" "$(memory_of "$node")" resumed.txt; done
[[ -n $(memory_of n1) ]] || fail "nothing is in the memory of n1"
"$slurm_sh" exec n1 "$ECHELON_CKPT_BIN" gc "$run" --yes >gc.txt 2>&1 || fail "gc" gc.txt
expect_equal "left in the memory of n1" "" "$(memory_of n1)" gc.txt
