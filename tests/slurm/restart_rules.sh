#!/usr/bin/env bash
# What the job script decides when ranks are lost: they start again in place, without leftovers of the last start; a
# node that fails twice at one step is left out; a step that fails again and again ends the job; a limit ends restarts.
source "$(dirname "$0")/lib.sh"
use_cluster

# What a rank runs here, in place of a trainer: `fails STEP` tells of the loss of rank 1, as the ranks' own watch does.
cat >rank <<'SH'
#!/usr/bin/env bash
n=${ECHELON_RESTART_IN_PLACE:-0}
if ((PMIX_RANK == 0)); then echo "$EPOCHREALTIME" >"$run/.lock"; fi
echo "start $n: rank $PMIX_RANK on $SLURMD_NODENAME, left out: ${ECHELON_LEFT_OUT:-none}"
fails() {
  local file=$run/logs/peer-failure.txt
  if ((PMIX_RANK == 0)); then return; fi
  echo "$EPOCHREALTIME $SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0}${ECHELON_RESTART_IN_PLACE:+.$n} rank 1 has died" >"$file.new"
  echo "failed $EPOCHREALTIME step $1 rank 1 node $SLURMD_NODENAME.cluster.local suspect 0 token $ECHELON_NOTE_TOKEN" >>"$file.new"
  mv "$file.new" "$file"
  exit 7
}
source "$run/plan"
SH
chmod +x rank
submit() {  # submit RUN OPTIONS: runs ./rank with the plan on standard input
  run=$work/$1
  export run
  mkdir -p "$run"
  cat >"$run/plan"
  job=$("$ECHELON_BIN" submit "$tiny_yaml" run.dir="$run" --program "$work/rank" --tasks-per-node 1 --time 10 "${@:2}" |
    head -n 1)
  log=$run/logs/slurm-$job.out
}
starts() { grep -E '^start' "$log" | sort | sed -E 's/, left out.*//; s/^start ([0-9]+): rank . on /\1 /' | xargs; }

# Rank 0 of the first start neither ends by itself nor on SIGTERM, and leaves a child.
submit twice --nodes 2 --spare-nodes 1 --exclude n3 <<'PLAN'
case $n in
  0) if ((PMIX_RANK == 0)); then trap '' TERM; sleep 600 & echo "$$ $!" >"$run/left"; sleep 600; fi; fails 7 ;;
  1) for pid in $(cat "$run/left"); do if grep -qsz . "/proc/$pid/cmdline"; then echo "process $pid is left"; fi; done; echo "new nodes: ${ECHELON_NEW_NODES:-none}"; fails 7 ;;
  2) echo "restart $n, failed ${ECHELON_FAILED_AT%.*}, cause: $ECHELON_RESTART_CAUSE, new nodes: ${ECHELON_NEW_NODES:-none}" ;;
esac
PLAN
wait_for_job "$job" 120
expect_equal "state of the job" COMPLETED "$(job_field "$job" JobState)" "$log"
expect_equal "nodes of each start" "0 n0 0 n1 1 n0 1 n1 2 n0 2 n2" "$(starts)" "$log"
expect_match "the log" "lost a rank or the connection to it and starts again in place on n0,n2 without n1 \(restart 2 of at most 20\)" \
  "$(cat "$log")"
expect_match "what the third start was told" "restart 2, failed [0-9]+, cause: rank 1 has died, new nodes: 1" "$(cat "$log")"
expect_match "the second start, on the same nodes" "new nodes: none" "$(cat "$log")"
expect_match "suspects" ' n1 [0-9]+ failed 2 times at step 7' "$(cat "$run/logs/suspects.txt")"
! grep 'is left$' "$log" || fail "processes of the first start are left in the second" "$log"
expect_equal "notes" "start 0 lost 7 restart 0 lost 7 restart 0 end 0" \
  "$(grep -v 'end 7' "$run/logs/starts-$job.txt" | cut -d' ' -f1-2 | xargs)"

# srun says 1 of a rank that the kernel ended for lack of memory, whatever the others end with.
# shellcheck disable=SC2016
submit memory --nodes 2 --exclude n2,n3 <<<'((n == 1)) || exit 1'
wait_for_job "$job" 120
expect_equal "state of a job that was out of memory once" COMPLETED "$(job_field "$job" JobState)" "$log"
expect_match "the log" "lost a rank, probably to a lack of memory and starts again in place on n0,n1 \(restart 1" "$(cat "$log")"

# srun's own failures are no such rank.
for refused in --mpi=none-such=71 --no-such-option=255; do
  job=$(sbatch --parsable --output=job.txt --nodes=1 --wrap "exec '$ECHELON_BIN' supervise --run-dir '$work/refused' \
    --srun-option=${refused%=*} -- '$work/rank'")
  wait_for_job "$job" 60
  expect_equal "exit code of a job with srun ${refused%=*}" "${refused##*=}:0" "$(job_field "$job" ExitCode)" job.txt
done

# Not the node: another one fails at the same step.
submit step --nodes 2 --max-same-step 2 <<<'fails 7'
wait_for_job "$job" 120
expect_equal "exit code of a job that fails at one step" 6:0 "$(job_field "$job" ExitCode)" "$log"
expect_match "the log" "ends: step 7 failed 2 times in a row, .* the last time: rank 1 has died" "$(cat "$log")"

# Beyond the limit it is queued again, as without restarts.
# shellcheck disable=SC2016
submit limit --nodes 2 --exclude n2,n3 --max-restarts 1 <<<'fails $((n + 1))'
job_is_queued_again() { [[ $(job_field "$job" JobState) == PENDING && $(job_field "$job" Restarts) == 1 ]]; }
wait_for 120 "the job to be queued again" job_is_queued_again
expect_equal "nodes of each start" "0 n0 0 n1 1 n0 1 n1" "$(starts)" "$log"
expect_match "the log" "requeues itself" "$(cat "$log")"
scancel "$job"

# Refused before anything starts.
exits 2 err.txt "$ECHELON_BIN" submit "$tiny_yaml" run.dir="$work/none" --nodes 2 --spare-nodes 1 --max-restarts 0
job=$(ECHELON_SPARE_NODES=2 sbatch --parsable --output=job.txt --nodes=2 "$train_sbatch" "$tiny_yaml" run.dir="$work/none")
wait_for_job "$job" 60
expect_match "spare nodes only" 'cannot start: --spare-nodes \(ECHELON_SPARE_NODES\) is 2, and the job has 2 nodes' "$(cat job.txt)"
