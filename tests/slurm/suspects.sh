#!/usr/bin/env bash
# A job that lost a rank comes back without the nodes that its watch suspects, as far as it can do without them; its
# ranks know when it began, when it ends and how long Slurm waits before it kills.
source "$(dirname "$0")/lib.sh"
use_cluster
run=$work/run
mkdir -p "$run/logs"

# What a rank runs here: each start commits a step, so that the guard against loops has nothing to say.
cat >ends_with_7 <<'SH'
#!/bin/sh
step=$(printf 'run/checkpoints/step-%09d.0123abcd' $((${SLURM_RESTART_COUNT:-0} + 1)))
mkdir -p "$step"
touch "$step/COMMIT"
echo "start on $(uname -n): $ECHELON_STARTED_AT $SLURM_JOB_END_TIME $ECHELON_KILL_WAIT_S"
if [ "${SLURM_RESTART_COUNT:-0}" = 2 ]; then kill -KILL $$; fi
exit 7
SH
chmod +x ends_with_7

suspect() { echo "$(($(date +%s) - $1)) $2 17 no sign of ranks 2 to 3" >>"$run/logs/suspects.txt"; }
job_is_pending() { [[ $(job_field "$job" JobState) == PENDING ]] && (($(job_field "$job" Restarts) >= $1)); }
expect_left_out() {  # expect_left_out START NODES
  wait_for 60 "the end of start $1" job_is_pending "$1"
  sleep 2
  expect_equal "nodes left out after start $1" "$2" "$(job_field "$job" ExcNodeList)" "$log" "$run/logs/suspects.txt"
}
start_again() { scontrol update jobid="$job" StartTime=now; }

suspect $((2 * 86400)) n0  # too long ago
suspect 60 n2              # a second one is more than a quarter of four nodes
suspect 30 n1.cluster.local
suspect 20 n9              # not of this cluster
trap 'scancel "$job"' EXIT
began=$(date +%s)
job=$("$ECHELON_BIN" submit "$tiny_yaml" run.dir="$run" --program ./ends_with_7 --max-restarts 0 --nodes 2 --tasks-per-node 1 --exclude n3 \
  --time 10 | head -n 1)
log=$run/logs/slurm-$job.out
expect_left_out 1 n3,n1
expect_match "the log" "job $job lost a rank or the connection to it and requeues itself without n3,n1 " "$(cat "$log")"
read -r _ _ _ started ends kill_wait < <(grep '^start on' "$log")
((${started%.*} - began < 60 && ends - ${started%.*} > 540 && ends - ${started%.*} < 660)) ||
  fail "began before $began, started $started, ends $ends" "$log"
expect_equal "KillWait" 5 "$kill_wait"

# A newer suspicion takes the place of an older one; three nodes are left for two.
suspect 0 n0
start_again
expect_left_out 2 n3,n0
expect_equal "nodes of the second start" "n0 n2" "$(sed -nE 's/^start on (n.):.*/\1/p' "$log" | tail -n 2 | sort | xargs)" "$log"

# A rank that was killed: the same. The owner takes the lines away: all nodes but his own exclusion are back.
: >"$run/logs/suspects.txt"
suspect $((2 * 86400)) n0
start_again
expect_left_out 3 n3
expect_match "the log" 'lost a rank to signal 9 and requeues itself without n3 ' "$(cat "$log")"
scancel "$job"

# A job that needs every node keeps them.
rm -r "$run"
mkdir -p "$run/logs"
suspect 10 n1
job=$("$ECHELON_BIN" submit "$tiny_yaml" run.dir="$run" --program ./ends_with_7 --max-restarts 0 --nodes 4 --tasks-per-node 1 | head -n 1)
log=$run/logs/slurm-$job.out
expect_left_out 1 '(null)'
scancel "$job"
