#!/usr/bin/env bash
# A submitted job that is stopped with 85 comes back by itself and goes on; its steps are those of a run that nobody
# stopped. The recipe it goes on with is the one it was submitted with.
source "$(dirname "$0")/lib.sh"
use_cluster
run=$work/run

cp "$tiny_yaml" recipe.yaml
"$ECHELON_BIN" submit recipe.yaml run.dir="$run" train.steps=1000000 checkpoint.every_steps=0 --nodes 4 \
  --tasks-per-node 2 --wait >out.txt 2>err.txt &
follower=$!
wait_for 60 "the job's number" test -s out.txt
job=$(head -n 1 out.txt)
log=$run/logs/slurm-$job.out
echo "not: a recipe" >recipe.yaml

wait_for_step "$job" "$run" 3 "$log"
scancel --signal=TERM "$job.0"
wait_for 60 "the job to be pending" job_is "$job" PENDING
stopped_at=$(last_step "$run")
sleep 2  # nodes refuse a new start in the second in which they canceled the permits of the old one
scontrol update jobid="$job" StartTime=now
wait_for_step "$job" "$run" $((stopped_at + 3)) "$log"
expect_equal "restarts" 1 "$(job_field "$job" Restarts)" "$log"
expect_match "the log of both starts" "requeues itself.*resumed from step $stopped_at" "$(tr '\n' ' ' <"$log")"
starts=$(cut -d' ' -f1-2 "$run/logs/starts-$job.txt" | xargs)
expect_equal "starts" "start 0 end 85 start $stopped_at" "$starts"

# Canceled: it saves, and does not come back; the follower ends with what the script ended with.
scancel "$job"
code=0
wait $follower || code=$?
expect_equal "state after scancel" CANCELLED "$(job_field "$job" JobState)" "$log"
expect_match "exit code of --wait" '^(85|143)$' $code err.txt
expect_match "states told" 'RUNNING.*PENDING.*RUNNING.*CANCELLED' "$(tr '\n' ' ' <err.txt)"

metrics_field "$run" step >steps.txt
seq "$(last_step "$run")" >expected.txt
diff expected.txt steps.txt >diff.txt || fail "steps are missing or were done twice" diff.txt "$log"
"$ECHELON_BIN" train "$tiny_yaml" run.dir=local train.steps="$(last_step "$run")" checkpoint.every_steps=0 --ranks 8 \
  >local.txt 2>&1 || fail "the undisturbed run" local.txt
expect_equal "losses" "$(metrics_field local loss)" "$(metrics_field "$run" loss)"
