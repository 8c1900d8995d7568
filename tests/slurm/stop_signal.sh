#!/usr/bin/env bash
# SIGTERM, SIGUSR2 or SIGINT to the ranks: they end their step, commit a checkpoint and exit with 85; the next
# start goes on with the step after it.
source "$(dirname "$0")/lib.sh"
use_cluster
run=$work/run

start_and_stop() {  # start_and_stop SIGNAL: trains at least three steps more, then stops
  local signal=$1 before job
  before=$(last_step "$run")
  job=$(sbatch --parsable --output="job-$signal.txt" --nodes=4 --ntasks-per-node=2 --wrap \
    "exec srun --mpi=pmix $ECHELON_BIN train $tiny_yaml run.dir=$run \
     train.steps=1000000 checkpoint.every_steps=0")
  wait_for_step "$job" "$run" $((before + 3)) "job-$signal.txt"
  scancel --signal="$signal" "$job.0"
  wait_for_job "$job" 120
  expect_equal "exit code after SIG$signal" 85:0 "$(job_field "$job" ExitCode)" "job-$signal.txt"
  "$ECHELON_CKPT_BIN" verify "$run" >verify.txt 2>&1 || fail "the checkpoint of SIG$signal" verify.txt
}

for signal in TERM USR2 INT; do start_and_stop $signal; done
metrics_field "$run" step >steps.txt
seq "$(last_step "$run")" >expected.txt
diff expected.txt steps.txt >diff.txt || fail "steps are missing or were done twice" diff.txt
