#!/usr/bin/env bash
# A batch job that is preempted, or stopped with 85, comes back under the same job id and goes on; one that is
# canceled does not.
source "$(dirname "$0")/lib.sh"
use_cluster
run=$work/run

job=$(sbatch --parsable --output=job.txt --nodes=4 --ntasks-per-node=2 "$train_sbatch" \
  "$tiny_yaml" run.dir="$run" train.steps=1000000 checkpoint.every_steps=0)

wait_for_progress() {  # waits for three steps more than there are now
  wait_for_step "$job" "$run" $(($(last_step "$run") + 3)) job.txt
}

wait_for_progress
scancel --signal=TERM "$job.0"  # stopped by a signal to the ranks: the script requeues
start_again_now "$job"
wait_for_progress
expect_equal "restarts after the stop" 1 "$(job_field "$job" Restarts)" job.txt

scancel --signal=TERM --batch "$job"  # to the supervisor alone, as before there are ranks: it passes that on
start_again_now "$job"
wait_for_progress
expect_equal "restarts after the supervisor's stop" 2 "$(job_field "$job" Restarts)" job.txt
expect_equal "stops with a checkpoint" 2 "$(grep -c 'stopped after a checkpoint and requeues itself' job.txt)" job.txt

# Preempted: Slurm requeues.
sbatch --partition=urgent --nodes=4 --output=/dev/null --wrap 'sleep 1' >urgent.txt
start_again_now "$job"
wait_for_progress
expect_equal "restarts after the preemption" 3 "$(job_field "$job" Restarts)" job.txt

scancel "$job"
wait_for_job "$job" 60
sleep 3
expect_equal "state after scancel" CANCELLED "$(job_field "$job" JobState)" job.txt
"$ECHELON_CKPT_BIN" verify "$run" >verify.txt 2>&1 || fail "the last checkpoint" verify.txt
metrics_field "$run" step >steps.txt
seq "$(last_step "$run")" >expected.txt
diff expected.txt steps.txt >diff.txt || fail "steps are missing or were done twice" diff.txt job.txt
