#!/usr/bin/env bash
# echelon submit: eight ranks on four nodes train as eight local ones do; --wait follows the job and ends with its
# exit code; what Slurm refuses is told with advice.
source "$(dirname "$0")/lib.sh"
use_cluster
smoke=("$ECHELON_SOURCE_DIR/recipes/smoke.yaml" train.global_batch_size=16 train.threads_per_rank=1 train.device=cpu)

expect_code() {  # expect_code EXIT_CODE ARGUMENTS OF submit: output in out.txt and err.txt
  local expected=$1 code=0
  shift
  "$ECHELON_BIN" submit "$@" >out.txt 2>err.txt || code=$?
  expect_equal "exit code of submit ${*:2}" "$expected" $code out.txt err.txt
}

expect_code 0 "${smoke[@]}" run.dir=cluster --nodes 4 --tasks-per-node 2 --time 10 --test-only
expect_match "--test-only" 'using 8 processors on nodes n\[0-3\]' "$(cat out.txt)"
expect_code 0 "${smoke[@]}" run.dir=cluster --nodes 4 --tasks-per-node 2 --time 10 --print
cmp out.txt cluster/submissions/2/job.sbatch || fail "--print shows another script than it keeps"
expect_equal "jobs after --test-only and --print" "" "$(squeue --noheader)"

# Slurm reads these variables too, and they win over a script's lines: not over the command line's options.
SBATCH_PARTITION=urgent SBATCH_TIMELIMIT=1 SBATCH_NO_REQUEUE=1 expect_code 0 "${smoke[@]}" run.dir=cluster \
  --nodes 4 --tasks-per-node 2 --time 10 --partition main --job-name by-submit --wait
job=$(head -n 1 out.txt)
expect_match "the first line" '^[0-9]+$' "$job" out.txt
expect_match "the job" 'JobName=by-submit .*JobState=COMPLETED .*Requeue=1 .*TimeLimit=00:10:00 .*Partition=main ' \
  "$(scontrol --oneliner show job "$job")" cluster/submissions/3/job.sbatch
expect_match "states" "job $job is RUNNING.*job $job is COMPLETED" "$(tr '\n' ' ' <err.txt)"
tail -n +6 out.txt | cmp - "cluster/logs/slurm-$job.out" || fail "--wait does not show the job's log" out.txt
expect_match "progress" $'\nstep 10/10 ' "$(cat out.txt)"
"$ECHELON_BIN" train "${smoke[@]}" run.dir=local --ranks 8 >local.txt 2>&1 || fail "training with eight local ranks" local.txt
expect_equal "losses" "$(metrics_field local loss)" "$(metrics_field cluster loss)"
expect_equal "steps" 10 "$(last_step cluster)"

# An array: a run for each task, in its own folder.
expect_code 0 "${smoke[@]}" 'run.dir=try-{task}' 'run.seed={task}' --array 1-2 --nodes 2 --tasks-per-node 2 --time 10
array=$(head -n 1 out.txt)
for task in 1 2; do
  wait_for_job "${array}_$task" 60
  expect_equal "steps of task $task" 10 "$(last_step try-$task)" "try-$task/logs/slurm-${array}_$task.out"
  expect_match "seed of task $task" "seed: $task" "$(cat try-$task/recipe.yaml)"
done

# One that can never start is refused by newer versions of Slurm, and else not waited for.
if [[ $(sbatch --version) == *" 22."* ]]; then
  expect_code 85 "${smoke[@]}" run.dir=too_large --nodes 8 --wait
  expect_match "its state" 'PENDING \(PartitionNodeLimit\)' "$(cat err.txt)"
  scancel "$(head -n 1 out.txt)"
else
  expect_code 2 "${smoke[@]}" run.dir=too_large --nodes 8 --wait
  expect_match "the reason" 'not that many nodes' "$(cat err.txt)"
fi

# The job's own exit code: here the missing data, of which the nodes know.
expect_code 4 "${smoke[@]}" run.dir=no_data data.kind=tokens data.path=missing.tok --nodes 4 --tasks-per-node 2 --wait --submit-anyway
expect_match "its log" 'missing.tok' "$(cat out.txt)"

expect_refusal() {  # expect_refusal REGEX ARGUMENTS OF submit
  local regex=$1
  shift
  expect_code 2 "${smoke[@]}" run.dir=refused "$@"
  expect_match "what is said of $*" "^echelon: Slurm refuses the job: $regex" "$(cat err.txt)"
  expect_equal "lines of it" 1 "$(wc -l <err.txt)" err.txt
}
expect_refusal '.*nvalid partition.*; .sinfo --summarize' --partition nope
expect_refusal '.*nvalid feature.*--constraint' --constraint nope
expect_refusal '.*ode configuration is not available.*--tasks-per-node' --nodes 8 --test-only
expect_refusal '.*ode configuration is not available.*--tasks-per-node' --nodes 2 --tasks-per-node 4
expect_equal "jobs after the refusals" "" "$(squeue --noheader)"
