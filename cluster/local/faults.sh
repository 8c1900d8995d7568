# shellcheck shell=bash disable=SC2154
# Part of slurm.sh: what can happen to a node, and its repair.
# Uses of slurm.sh: $state, $conf, $net, die, slurm, take_lock, check_root, in_node, node_is_alive, start_holder, ...

# check_node COMMAND NODE: one of this cluster's nodes.
check_node() {
  local size
  check_root
  size=$(cat "$state/size" 2>/dev/null) || die 3 "down (no cluster in $state); start it with: $0 up"
  [[ $size =~ ^[0-9]{1,3}$ ]] || die 3 "'$state/size' holds '$size', not a number of nodes; start again with: $0 up"
  [[ $2 =~ ^n(0|[1-9][0-9]{0,2})$ && ${2#n} -lt $size ]] ||
    die 2 "$1: no node '$2'; expected one of n0 to n$((size - 1))"
  node_is_alive ctl || die 3 "the controller's node is not running; start the cluster with: $0 up"
}

check_running_node() {
  check_node "$@"
  node_is_alive "$2" || die 3 "node $2 is not running; bring it back with: $0 restore $2"
}

check_tc() {
  [[ -x $(type -P tc) ]] || die 3 "missing: tc; install: apt-get install iproute2"
}

slurmd_of() {  # process id of a node's slurmd; fails when there is none
  local pid
  for pid in $(node_processes "$1"); do
    if [[ $(cat "/proc/$pid/comm" 2>/dev/null) == slurmd ]]; then echo "$pid" && return; fi
  done
  return 1
}

set_state() {  # set_state NODE STATE [REASON]
  local why
  why=$(slurm scontrol update nodename="$1" state="$2" ${3:+reason="$3"} 2>&1) ||
    die 3 "Slurm does not set node $1 to $2: ${why%%$'\n'*}"
}

node_states() { slurm sinfo --noheader --partition=main --nodes="$1" --format=%T 2>/dev/null; }
node_is_fit() { [[ $(node_states "$1") =~ ^(idle|mixed|allocated|completing)$ ]]; }
node_answers() { [[ -n $(node_states "$1") && $(node_states "$1") != *'*' ]]; }

cmd_kill() {
  [[ ${1:-} =~ ^n[0-9]+$ && $# -eq 1 ]] || die 2 "kill: expected a node such as n1, got '$*'"
  check_root
  node_is_alive "$1" || die 3 "node $1 is not running"
  kill_nodes "$1"
}

cmd_stop_slurmd() {
  local pid
  (($# == 1)) || die 2 "stop-slurmd: expected a node such as n1, got '$*'"
  check_running_node stop-slurmd "$1"
  pid=$(slurmd_of "$1") || die 3 "slurmd of node $1 is not running"
  kill -KILL "$pid"
}

start_slurmd() {
  start_daemon "$1" slurmd -D
  wait_until 60 slurmd_of "$1" >/dev/null || die 3 "slurmd of node $1 does not start: $(last_line "$state/log/$1.start")"
}

cmd_start_slurmd() {
  (($# == 1)) || die 2 "start-slurmd: expected a node such as n1, got '$*'"
  check_running_node start-slurmd "$1"
  ! slurmd_of "$1" >/dev/null || die 3 "slurmd of node $1 is already running"
  start_slurmd "$1"
}

# slow_link WHERE INTERFACE RATE [DELAY]: of what is sent there. tbf lets pass RATE; only netem can delay.
slow_link() {
  local why discipline=(tbf rate "$3" burst 32kbit latency 400ms)
  if [[ -n ${4:-} ]]; then discipline=(netem rate "$3" delay "$4"); fi
  why=$(in_node "$1" tc qdisc replace dev "$2" root "${discipline[@]}" 2>&1) ||
    die 3 "this kernel cannot slow the network: it has no module sch_${discipline[0]} (${why%%$'\n'*})"
}

cmd_slow() {
  (($# >= 2 && $# <= 3)) || die 2 "slow: expected a node, a rate and optionally a delay, such as n1 20mbit 5ms, got '$*'"
  [[ $2 =~ ^[1-9][0-9]*(kbit|mbit|gbit)$ ]] || die 2 "slow: expected a rate such as 20mbit (kbit, mbit, gbit), got '$2'"
  [[ -z ${3:-} || $3 =~ ^[1-9][0-9]*(us|ms|s)$ ]] || die 2 "slow: expected a delay such as 5ms (us, ms, s), got '$3'"
  check_running_node slow "$1"
  check_tc
  slow_link "$1" eth0 "$2" "${3:-}"
  slow_link ctl "port-$1" "$2" "${3:-}"
}

cmd_cut() {
  (($# == 1)) || die 2 "cut: expected a node such as n1, got '$*'"
  check_running_node cut "$1"
  in_node ctl ip link set "port-$1" down
}

cmd_drain() {
  (($# >= 1)) || die 2 "drain: expected a node such as n1 and optionally a reason"
  check_node drain "$1"
  if (($# == 1)); then set -- "$1" "drained by slurm.sh"; fi
  set_state "$1" drain "${*:2}"
}

cmd_undrain() {
  (($# == 1)) || die 2 "undrain: expected a node such as n1, got '$*'"
  check_node undrain "$1"
  [[ $(node_states "$1") == drain* ]] || die 3 "node $1 is not drained, it is $(node_states "$1")"
  set_state "$1" undrain
  wait_until 60 node_answers "$1" || die 3 "node $1 does not answer Slurm; see $state/log/$1.log"
}

# A node that lost its power comes back as a machine put in its place: namespaces, /tmp and spool folder are new. (In
# an old spool folder a socket of Slurm's PMIx plugin keeps the step of the same job from starting again.)
power_on() {
  local home="$state/nodes/$1"
  rm -rf --one-file-system -- "$home/tmp" "$home/spool" "$home/ready"
  start_holder "$1"
  connect_node "$1"
}

unslow() {
  local where=$1 interface=$2
  if in_node "$where" tc qdisc show dev "$interface" 2>/dev/null | grep -qE ' (tbf|netem) '; then
    in_node "$where" tc qdisc del dev "$interface" root
  fi
}

cmd_restore() {
  (($# == 1)) || die 2 "restore: expected a node such as n1, got '$*'"
  check_node restore "$1"
  take_lock
  node_is_alive "$1" || power_on "$1"
  in_node ctl ip link set "port-$1" up
  if [[ -x $(type -P tc) ]]; then
    unslow "$1" eth0
    unslow ctl "port-$1"
  fi
  slurmd_of "$1" >/dev/null || start_slurmd "$1"
  wait_until 90 node_answers "$1" || die 3 "slurmd of node $1 does not answer: $(last_line "$state/log/$1.log")"
  # Slurm remembers what it took a node out for.
  case $(node_states "$1") in
    drain*) set_state "$1" undrain ;;
    down*) set_state "$1" resume ;;
  esac
  wait_until 60 node_is_fit "$1" || die 3 "node $1 stays $(node_states "$1"); see $state/log/slurmctld.log"
}
