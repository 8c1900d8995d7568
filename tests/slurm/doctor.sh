#!/usr/bin/env bash
# echelon doctor on a real cluster: nothing to say where all is well, and each fault named with its node.
# shellcheck disable=SC2016
source "$(dirname "$0")/lib.sh"
use_cluster

# findings REPORT: a line "verdict check node,node" for all that is not ok, the text behind it.
findings() {
  python3 - "$1" <<'PYTHON'
import json, sys
for check in json.load(open(sys.argv[1]))["checks"]:
    if check["verdict"] != "ok":
        print(check["verdict"], check["name"], ",".join(check["nodes"]), "|", check["text"])
PYTHON
}

examine() {  # examine EXIT_CODE REPORT CMD...: runs CMD, which prints a report as JSON
  local expected=$1 report=$2 code=0
  shift 2
  "$@" --json >"$report" 2>"$report.err" || code=$?
  expect_equal "exit code of $*" "$expected" $code "$report" "$report.err"
  findings "$report" >"$report.txt" || fail "no report" "$report" "$report.err"
}

names() {  # names REPORT REGEX: a line of its findings
  grep -qE "$2" "$1.txt" || fail "expected a finding that matches '$2'" "$1.txt" "$1.err"
}

# Nobody has the disk to themselves: a slow write is nobody's fault here.
names_nothing_but() {  # names_nothing_but REPORT CHECK...
  local report=$1 pattern
  shift
  pattern=$(printf '|%s' "$@")
  ! grep -vE "^[a-z]+ (shared_write$pattern) " "$report.txt" >&2 || fail "findings that nobody caused (above)" "$report.txt"
}

cluster() { examine "$1" "$2" "$ECHELON_BIN" doctor cluster "${@:3}"; }

# The nodes share a few busy cores: only one that is slowed on purpose is slower than the share given.
job() {  # job EXIT_CODE REPORT BODY: BODY runs on every node in front of the doctor and may replace $doctor
  examine "$1" "$2" srun --nodes=3 --ntasks-per-node=1 "${mpi:---mpi=pmix}" bash -c \
    'doctor=$0; '"$3"'; exec "$doctor" doctor job --slow '"${share:-0.01}"' "$@"' "$ECHELON_BIN" "${@:4}"
}

# --- doctor cluster

cluster 0 fit.json --nodes 4 --tasks-per-node 2 --time 10 --recipe "$tiny_yaml"
names_nothing_but fit.json none

trap 'scontrol update nodename=n3 state=resume; scontrol update partition=urgent state=up' EXIT
scontrol update nodename=n3 state=drain reason='a bad fan'
scontrol update partition=urgent state=down
cluster 0 drained.json
names drained.json '^warning nodes n3 .*a bad fan'
names_nothing_but drained.json nodes
cluster 3 down.json --partition urgent --nodes 4
names down.json '^fault partition .*urgent is DOWN'
names down.json '^fault nodes n3 .*3 are left for 4'
cluster 3 unknown.json --partition urgnt
names unknown.json "^fault partition .*no partition 'urgnt'"
SLURM_PMIX_FENCE=tree cluster 3 fence.json
names fence.json '^fault pmix_fence .*SLURM_PMIX_FENCE is tree'
SLURM_CONF=$work/no-such-file cluster 3 silent.json --timeout 2
names silent.json '^fault slurm .*scontrol (exits with 1|did not answer within 2 s)'
scontrol update nodename=n3 state=resume
scontrol update partition=urgent state=up
trap - EXIT

# --- doctor job: in order

job 0 job.json true
names_nothing_but job.json none

# --- without PMIx, and with a rank that never arrives

mpi=--mpi=none job 3 no_pmix.json true
names no_pmix.json '^fault pmix .*without PMIx'
# n0 and n2 begin together, however busy this machine is.
job 3 hung.json 'if [[ $(uname -n) == n1 ]]; then sleep 9; exit 0; fi
  touch "here.$(uname -n)"; until [[ -e here.n0 && -e here.n2 ]]; do sleep 0.1; done' --timeout 5
names hung.json '^fault exchange n1 .*no sign of rank 1'

# --- files: what a node mounts is its own affair

mkdir shared apart
"$slurm_sh" exec n1 mount -t tmpfs -o ro none /dev/shm
"$slurm_sh" exec n2 bash -c "mount --bind '$work/shared' '$work/shared' && mount -o remount,bind,ro '$work/shared'"
trap '"$slurm_sh" exec n1 umount /dev/shm; "$slurm_sh" exec n2 umount "$work/shared"' EXIT
job 3 files.json true --folder "$work/shared"
names files.json '^fault shm n1 .*Read-only'
names files.json '^fault shared_folder n2 .*Read-only'
names_nothing_but files.json shm shared_folder
"$slurm_sh" exec n1 umount /dev/shm
"$slurm_sh" exec n2 umount "$work/shared"

"$slurm_sh" exec n1 mount -t tmpfs none "$work/apart"
trap '"$slurm_sh" exec n1 umount "$work/apart"' EXIT

# --- programs: n1 is apart from the shared folder, n2 runs a program of another version

version=$("$ECHELON_BIN" --version | sed -nE '1s/^echelon ([0-9.]+)$/\1/p')
other=${version//[0-9]/9}
mkdir -p other/bin
ln -s "$(dirname "$(dirname "$ECHELON_BIN")")/lib" other/lib
sed "s/$version\x00/$other\x00/g" "$ECHELON_BIN" >other/bin/echelon
chmod +x other/bin/echelon
job 3 skew.json 'if [[ $(uname -n) == n2 ]]; then doctor=other/bin/echelon; fi' --folder "$work/apart"
names skew.json "^fault versions n2 .*rank 2 on n2 has echelon ${other//./\\.} .*others ${version//./\\.}"
names skew.json '^fault shared_folder n1 .*n1 is isolated: 2 of 2'
names_nothing_but skew.json versions shared_folder
"$slurm_sh" exec n1 umount "$work/apart"
trap - EXIT

# --- speed: n1 starts each computation late, n2 has a slow network

"$slurm_sh" exec n2 tc qdisc add dev eth0 root tbf rate 20mbit burst 32kbit latency 400ms
trap '"$slurm_sh" exec n2 tc qdisc del dev eth0 root' EXIT
export ECHELON_FAILING_CALLS
share=0.1 job 3 slow.json \
  'if [[ $(uname -n) == n1 ]]; then export LD_PRELOAD=$ECHELON_FAILING_CALLS ECHELON_DELAY=GOMP_parallel; fi'
names slow.json '^fault matmul n1 '
names slow.json '^fault bandwidth n2 '
names_nothing_but slow.json matmul bandwidth
