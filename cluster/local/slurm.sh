#!/usr/bin/env bash
# A real N-node Slurm cluster (slurmctld, N slurmd, munge, PMIx) on one machine. Every node is a set of
# namespaces of its own: network, host name, IPC, mounts (private /tmp and /dev/shm). See docs/local_slurm.md.
set -euo pipefail
umask 022
export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

self="$(realpath -- "${BASH_SOURCE[0]}")"
readonly self
readonly state="${ECHELON_SLURM_DIR:-/var/lib/echelon-slurm}"
readonly net="${ECHELON_SLURM_NET:-10.77.0}"
readonly link="ech-${net//./-}"  # this machine's port on the cluster's network; at most 15 characters
readonly marker="$state/.echelon-slurm"
readonly conf="$state/slurm.conf"

# shellcheck source=cluster/local/nodes.sh
source "${self%/*}/nodes.sh"
# shellcheck source=cluster/local/config.sh
source "${self%/*}/config.sh"
# shellcheck source=cluster/local/faults.sh
source "${self%/*}/faults.sh"

usage() {
  cat <<'TEXT'
usage: slurm.sh up [N]            start a Slurm cluster of N nodes (n0, n1, ...; default 4); needs root
       slurm.sh down              end every job, process and namespace of it and remove its files; needs root
       slurm.sh check             say whether this machine can have one: exit 0, else 3 with the reason
       slurm.sh status [N]        show it; exit 0 when it is healthy (and has N nodes), else 3
       slurm.sh env               print the exports for: eval "$(slurm.sh env)"; srun -N4 -n8 hostname
       slurm.sh exec NODE CMD...  run CMD on a node (n0, ..., or ctl) outside Slurm; needs root
       slurm.sh run N -- CMD...   up N, CMD with the exports, down (unless it was up before); exit code of CMD
what can happen to a node (n0, n1, ...); all need root:
       slurm.sh kill NODE         end all its processes at once, as a loss of power would
       slurm.sh stop-slurmd NODE  end its slurmd as a crash would; jobs on it go on
       slurm.sh start-slurmd NODE start slurmd again
       slurm.sh slow NODE RATE [DELAY]  limit its network to RATE each way (20mbit), delay each packet by DELAY (5ms)
       slurm.sh cut NODE          take it off the network
       slurm.sh drain NODE [WHY]  have Slurm start no more jobs on it; undrain NODE: reverts this
       slurm.sh restore NODE      undo all of these, power it on when it is off, and wait until it is fit for work
environment: ECHELON_SLURM_DIR   files of the cluster (default /var/lib/echelon-slurm; not under /tmp)
             ECHELON_SLURM_NET   first three numbers of its /24 network (default 10.77.0)
             ECHELON_SLURM_CPUS  CPUs each node claims to have, whatever the machine has (default 2)
exit codes: 0 done, 2 usage, 3 environment
TEXT
}

die() {  # die EXIT_CODE MESSAGE...
  local code=$1
  shift
  echo "slurm.sh: $*" >&2
  exit "$code"
}

# --- what must hold before anything is changed --------------------------------------------------------------

check_settings() {
  [[ $state == /* ]] || die 2 "ECHELON_SLURM_DIR: expected an absolute path, got '$state'"
  [[ $state != /tmp && $state != /tmp/* ]] ||
    die 2 "ECHELON_SLURM_DIR=$state lies under /tmp, which every node replaces by its own; use another folder"
  [[ $state != / && $state != *[[:space:]]* ]] || die 2 "ECHELON_SLURM_DIR: '$state' cannot be used"
  ((${#state} <= 80)) || die 2 "ECHELON_SLURM_DIR: longer than 80 characters, too long for a socket: $state"
  [[ $net =~ ^([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})$ ]] ||
    die 2 "ECHELON_SLURM_NET: expected three numbers such as 10.77.0, got '$net'"
  [[ ${ECHELON_SLURM_CPUS:-2} =~ ^[1-9][0-9]{0,2}$ ]] ||
    die 2 "ECHELON_SLURM_CPUS: expected 1 to 999, got '$ECHELON_SLURM_CPUS'"
}

check_node_count() {
  [[ $1 =~ ^([1-9][0-9]?|1[0-9]{2}|200)$ ]] || die 2 "expected a number of nodes from 1 to 200, got '$1'"
}

check_root() {
  ((EUID == 0)) || die 3 "must be root to make namespaces (you are $(id -un)); try: sudo $0 ..."
}

check_packages() {
  local commands=() packages=() pair
  for pair in slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge ip:iproute2 hostname:hostname \
    unshare:util-linux nsenter:util-linux flock:util-linux setsid:util-linux mount:mount; do
    [[ ! -x $(type -P "${pair%%:*}") ]] || continue
    commands+=("${pair%%:*}")
    [[ " ${packages[*]} " == *" ${pair##*:} "* ]] || packages+=("${pair##*:}")
  done
  if ((${#commands[@]})); then
    die 3 "missing: ${commands[*]}; install: apt-get install ${packages[*]}"
  fi
  [[ -e /etc/hosts ]] || die 3 "missing: /etc/hosts; install: apt-get install netbase"
}

check_kernel() {
  local why
  why=$(unshare --net --uts --ipc --mount --propagation unchanged true 2>&1) ||
    die 3 "cannot make network, UTS, IPC and mount namespaces here (${why##*: }): needs the capability" \
      "CAP_SYS_ADMIN; in a container start it with --privileged"
  why=$(unshare --net ip link add b0 type bridge 2>&1) ||
    die 3 "cannot make a bridge (${why##*: }): needs CAP_NET_ADMIN and the kernel module bridge"
  why=$(unshare --net ip link add v0 type veth peer name v1 2>&1) ||
    die 3 "cannot make a veth pair (${why##*: }): needs CAP_NET_ADMIN and the kernel module veth"
}

# One slurm.sh at a time: the lock is the state folder itself, so that nothing is left behind. `down` removes
# the folder when others may have opened it already, hence the second look.
take_lock() {
  exec 9<"$state"
  flock --nonblock 9 || die 3 "another slurm.sh is at work on $state; wait for it to end"
  [[ $state -ef /proc/self/fd/9 ]] || die 3 "another slurm.sh removed $state just now; try again"
  if [[ ! -e $marker && -n $(ls -A "$state") ]]; then
    die 3 "$state holds files that are not a cluster's; set ECHELON_SLURM_DIR to another folder"
  fi
}

# --- life cycle ---------------------------------------------------------------------------------------------

tear_down() {
  kill_cluster
  rm -rf --one-file-system -- "$state"
}

slurm() { SLURM_CONF=$conf timeout 20 "$@"; }

idle_nodes() { slurm sinfo --noheader --partition=main --Node --states=idle --format=%N 2>/dev/null | wc -l; }
has_idle_nodes() { (($(idle_nodes) == $1)); }

# healthy N: the controller answers and knows N nodes, all of them fit for work. Slurm notices a lost node
# late, we at once; but only root can see that.
healthy() {
  local states i
  for ((i = 0; EUID == 0 && i < $1; ++i)); do node_is_alive "n$i" || return 1; done
  states=$(slurm sinfo --noheader --partition=main --Node --format=%T 2>/dev/null) || return 1
  [[ $(wc -l <<<"$states") == "$1" ]] && ! grep -qvE '^(idle|mixed|allocated|completing)$' <<<"$states"
}

why_not_ready() {
  local why
  why=$(grep -hs 'fatal:' "$state"/log/* | head -n 1) ||
    why=$(grep -hs 'error:' "$state"/log/n*.log | tail -n 1) || why=$(last_line "$state/log/n0.start")
  echo "${why:-no error was logged}"
}

# The only proof that PMIx works is a step on every node: the plugin loads the library when the step starts.
check_pmix() {
  local why
  why=$(slurm srun --quiet --nodes="$1" --mpi=pmix true 2>&1) && return
  case $why in
    # Debian's plugin opens libpmix.so, a name that only the development package has.
    *'load PMIx library'*) die 3 "missing: libpmix.so; install: apt-get install libpmix-dev" ;;
    *'Invalid MPI type'* | *'find plugin'*)
      die 3 "this Slurm has no PMIx plugin; install: apt-get install slurm-wlm-basic-plugins" ;;
    *) die 3 "a step with PMIx fails on the new cluster: ${why%%$'\n'*} (logs: $state/log)" ;;
  esac
}

start_cluster() {
  local nodes=$1 node
  write_files "$nodes"
  for node in ctl $(seq -f 'n%.0f' 0 $((nodes - 1))); do start_holder "$node"; done
  connect "$nodes"
  start_daemon ctl munged --foreground --force --key-file="$state/munge/key" --socket="$state/munge/socket" \
    --pid-file="$state/munge/pid" --log-file="$state/log/munged.log" --seed-file="$state/munge/seed"
  wait_until 20 test -S "$state/munge/socket" ||
    die 3 "munged does not start: $(last_line "$state/log/ctl.start")"
  start_daemon ctl slurmctld -D
  for node in $(seq -f 'n%.0f' 0 $((nodes - 1))); do start_daemon "$node" slurmd -D; done
  wait_until $((30 + nodes)) has_idle_nodes "$nodes" ||
    die 3 "only $(idle_nodes) of $nodes nodes came up: $(why_not_ready) (logs: $state/log)"
  check_pmix "$nodes"
  echo "$nodes" >"$state/size"
}

stop_half_made() {  # keeps the logs, if there are any, for the reader; the next up or down removes them
  kill_cluster
  [[ -d $state/log ]] || rm -rf --one-file-system -- "$state"
}

cmd_check() {
  check_root
  check_packages
  check_kernel
}

cmd_up() {
  local nodes=${1:-4} size
  check_node_count "$nodes"
  cmd_check
  mkdir -- "$state" 2>/dev/null || [[ -d $state ]] || die 3 "cannot create the folder $state"
  take_lock
  size=$(cat "$state/size" 2>/dev/null || true)
  if [[ $size == "$nodes" ]] && healthy "$nodes"; then
    echo "slurm.sh: up already, nodes: $nodes, SLURM_CONF=$conf"
    return
  fi
  if [[ -n $size ]]; then
    ! node_is_alive ctl || [[ -z $(slurm squeue --noheader 2>/dev/null) ]] ||
      die 3 "a cluster of $size nodes is up and has jobs; end them, or: $0 down"
    echo "slurm.sh: replacing the cluster of $size nodes"
  fi
  kill_cluster
  find "$state" -xdev -mindepth 1 -delete
  touch "$marker"
  trap stop_half_made EXIT
  check_network_is_free
  start_cluster "$nodes"
  trap - EXIT
  echo "slurm.sh: up, nodes: $nodes, SLURM_CONF=$conf"
}

cmd_down() {
  check_root
  if [[ ! -d $state ]]; then
    echo "slurm.sh: already down"
    return
  fi
  take_lock
  tear_down
  echo "slurm.sh: down"
}

cmd_status() {
  local size
  size=$(cat "$state/size" 2>/dev/null) || die 3 "down (no cluster in $state)"
  echo "nodes: $size; SLURM_CONF=$conf; logs in $state/log"
  ((EUID)) || node_is_alive ctl ||
    die 3 "down (its processes are gone, its files are in $state); start it with: $0 up"
  slurm sinfo || die 3 "the controller does not answer; see $state/log/slurmctld.log"
  healthy "$size" || die 3 "not every node is fit for work"
  [[ ${1:-$size} == "$size" ]] || die 3 "expected $1 nodes, the cluster has $size"
}

cmd_env() {
  [[ -e $state/size ]] || die 3 "down (no cluster in $state); start it with: $0 up"
  printf 'export SLURM_CONF=%q\n' "$conf"
}

cmd_exec() {
  (($# >= 2)) || die 2 "exec: expected a node and a command"
  check_root
  local node=$1
  shift
  in_node "$node" env --chdir="$PWD" SLURM_CONF="$conf" "$@"
}

cmd_run() {
  local nodes=${1:-} rc=0
  [[ ${2:-} == -- && $# -ge 3 ]] || die 2 "run: expected N -- CMD..."
  check_node_count "$nodes"
  shift 2
  if [[ ! -e $state/size ]]; then trap '"$BASH" "$self" down >&2' EXIT; fi
  "$BASH" "$self" up "$nodes" >&2
  SLURM_CONF=$conf "$@" || rc=$?
  exit "$rc"
}

main() {
  local command=${1:-}
  shift || true
  check_settings
  case $command in
    up | status) (($# <= 1)) || die 2 "$command: expected at most a number of nodes"; "cmd_$command" "$@" ;;
    check | down | env) (($# == 0)) || die 2 "$command: expected no argument, got '$1'"; "cmd_$command" ;;
    exec | run) "cmd_$command" "$@" ;;
    kill | stop-slurmd | start-slurmd | slow | cut | drain | undrain | restore) "cmd_${command//-/_}" "$@" ;;
    _hold) hold "$1" ;;
    help | -h | --help) usage ;;
    '') usage >&2; exit 2 ;;
    *) die 2 "unknown command '$command'; see: $0 help" ;;
  esac
}

main "$@"
