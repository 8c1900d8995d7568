#!/usr/bin/env bash
# No requeue loop: a job that makes no progress in two starts is held with the reason, whoever queued it again.
source "$(dirname "$0")/lib.sh"
use_cluster

# What a rank runs here. As trainers do that cannot get anywhere: one always stops for a requeue, one does not end
# before Slurm kills it.
cat >stops <<'SH'
#!/bin/sh
exit 85
SH
cat >lingers <<'SH'
#!/bin/sh
trap '' TERM
echo "lingering"
while :; do sleep 1; done
SH
chmod +x stops lingers

job_is_held() { job_is "$1" PENDING && [[ $(job_field "$1" Reason) =~ [Hh]eld ]]; }
has_started() { [[ -e $2 ]] && (($(grep -c "$1" "$2") >= $3)); }
expect_held() {  # expect_held JOB LOG
  wait_for 60 "job $1 to be held" job_is_held "$1"
  expect_match "the log" "echelon: job $1 is held: 2 starts in a row ended without a new checkpoint .* scontrol release $1" \
    "$(cat "$2")"
  expect_match "the job's comment" 'Comment=held by echelon: 2 starts in a row' "$(scontrol --oneliner show job "$1")"
}

# Queued again by its script.
"$ECHELON_BIN" submit "$tiny_yaml" run.dir=stops-run --program ./stops --nodes 2 --tasks-per-node 1 --wait \
  >out.txt 2>err.txt &
follower=$!
wait_for 60 "the job's number" test -s out.txt
job=$(head -n 1 out.txt)
log=stops-run/logs/slurm-$job.out
wait_for 60 "the end of the first start" has_started 'requeues itself' "$log" 1  # before it, the job waits too
start_again_now "$job"
code=0
wait $follower || code=$?
expect_equal "exit code of --wait for a held job" 85 $code err.txt
expect_held "$job" "$log"
expect_equal "restarts" 2 "$(job_field "$job" Restarts)"  # Slurm counts the hold, too
# Released, it may try again.
scontrol release "$job"
start_again_now "$job"
wait_for 60 "the third start to end" has_started 'requeues itself' "$log" 2
scancel "$job"

# Queued again by others: the third start does not reach the ranks.
job=$("$ECHELON_BIN" submit "$tiny_yaml" run.dir=lingers-run --program ./lingers --nodes 2 --tasks-per-node 1 | head -n 1)
log=lingers-run/logs/slurm-$job.out
for start in 1 2; do
  wait_for 60 "start $start" has_started lingering "$log" $((2 * start))
  scontrol requeue "$job"
  start_again_now "$job"
done
expect_held "$job" "$log"
expect_equal "lines of ranks" 4 "$(grep -c lingering "$log")" "$log"
scancel "$job"

# Submitted with --no-requeue or from salloc, a job ends at once instead of asking Slurm for minutes.
job=$(sbatch --parsable --no-requeue --output=never.txt --nodes=1 --ntasks=1 --wrap \
  "exec $ECHELON_BIN supervise --run-dir $PWD/never-run -- $PWD/stops train $tiny_yaml run.dir=$PWD/never-run")
wait_for_job "$job" 60
cannot="cannot be requeued: it was submitted with --no-requeue, or comes from salloc; submit it again"
expect_match "the log" "$cannot" "$(cat never.txt)"
exits 85 salloc.txt timeout 60 salloc --nodes=1 --ntasks=1 \
  "$ECHELON_BIN" supervise --run-dir "$PWD/salloc-run" -- "$PWD/stops" train "$tiny_yaml" run.dir="$PWD/salloc-run"
expect_match "the log" "$cannot" "$(cat salloc.txt)"
