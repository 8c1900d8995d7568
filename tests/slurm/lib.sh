# shellcheck shell=bash
# What the tests of this folder share. Each runs alone in a fresh folder, $work, that all nodes see.
set -euo pipefail

: "${ECHELON_SOURCE_DIR:?the root of the repository}" "${ECHELON_WORK_DIR:?a folder for the output of jobs}"
slurm_sh=$ECHELON_SOURCE_DIR/cluster/local/slurm.sh
train_sbatch=$ECHELON_SOURCE_DIR/cluster/slurm/train.sbatch
tiny_yaml=$ECHELON_SOURCE_DIR/tests/slurm/tiny.yaml
work=$ECHELON_WORK_DIR/$(basename "$0" .sh)
export slurm_sh train_sbatch tiny_yaml

fail() {  # fail MESSAGE [FILE...]: the files are shown, they say more
  echo "FAIL: $1" >&2
  shift
  local file
  for file in "$@"; do
    echo "--- $file" >&2
    cat "$file" >&2 || true
  done
  exit 1
}

expect_equal() {  # expect_equal WHAT EXPECTED ACTUAL [FILE...]
  [[ $2 == "$3" ]] || fail "$1: expected '$2', got '$3'" "${@:4}"
}

expect_match() {  # expect_match WHAT REGEX ACTUAL [FILE...]
  [[ $3 =~ $2 ]] || fail "$1: expected a match of '$2', got '$3'" "${@:4}"
}

wait_for() {  # wait_for SECONDS WHAT CMD...
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    ((SECONDS < deadline)) || fail "waited too long for $what"
    sleep 0.2
  done
}

exits() {  # exits CODE FILE CMD...: with that code; what it says is in FILE
  local code=0
  "${@:3}" >"$2" 2>&1 || code=$?
  expect_equal "exit code of ${*:3}" "$1" $code "$2"
}

use_cluster() {
  local exports
  exports=$("$slurm_sh" env)
  eval "$exports"
}

job_field() { scontrol --oneliner show job "$1" | grep -oE "(^| )$2=[^ ]*" | head -n 1 | cut -d= -f2-; }
job_is() { [[ $(job_field "$1" JobState) == "$2" ]]; }
job_is_over() { [[ $(job_field "$1" JobState) =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)$ ]]; }
wait_for_job() { wait_for "${2:-300}" "job $1 to end" job_is_over "$1"; }

# Slurm holds a requeued job back for a while. Without that, nodes refuse the new start in the second in which
# they canceled the permits of the old one.
start_again_now() {  # start_again_now JOB
  wait_for 60 "job $1 to be pending" job_is "$1" PENDING
  sleep 2
  scontrol update jobid="$1" StartTime=now
}

# Exact text of a field of every line of a metrics file, in order.
metrics_field() { sed -nE "s/^.*\"$2\": *([^,}]+).*$/\1/p" "$1/metrics.jsonl"; }
last_step() { if [[ -e $1/metrics.jsonl ]]; then metrics_field "$1" step | tail -n 1; else echo 0; fi; }
has_reached() { local step; step=$(last_step "$1"); ((${step:-0} >= $2)); }
has_reached_or_is_over() { has_reached "$2" "$3" || job_is_over "$1"; }
wait_for_step() {  # wait_for_step JOB RUN_DIR STEP LOG
  wait_for 180 "step $3 of job $1 ($4)" has_reached_or_is_over "$1" "$2" "$3"
  has_reached "$2" "$3" || fail "job $1 ended before step $3" "$4"
}

if ! why=$("$slurm_sh" check 2>&1); then
  [[ $why != *' missing: '* ]] || fail "$why"  # a package: ./make.sh setup test installs it
  echo "SKIPPED: $why"
  exit 77
fi
[[ $work != /tmp/* ]] || fail "the build folder lies under /tmp, which every node replaces by its own: $work"
rm -rf "$work"
mkdir -p "$work"
cd "$work"
