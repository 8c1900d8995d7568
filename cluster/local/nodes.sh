# shellcheck shell=bash disable=SC2154
# Part of slurm.sh: the nodes' namespaces, the network between them and the processes in them.
# Uses of slurm.sh: $self, $state (folder of the cluster), $net, $link, $conf, die.

last_line() { grep -v '^[[:space:]]*$' "$1" 2>/dev/null | tail -n 1 || true; }

daemons=()  # process ids of what start_daemon started

daemons_live() {
  local pid
  for pid in "${daemons[@]}"; do kill -0 "$pid" 2>/dev/null || return 1; done
}

# wait_until SECONDS CMD...: until CMD succeeds. Gives up at once when a daemon has died.
wait_until() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < deadline)) && daemons_live || return 1
    sleep 0.1
  done
}

# --- namespaces ---------------------------------------------------------------------------------------------

# Inside a chroot that is no mount point itself, `/` cannot be changed; entering our own mount namespace again
# leads to its true root, where it can.
make_mounts_private() {
  mount --make-rprivate / 2>/dev/null || nsenter --mount=/proc/self/ns/mnt mount --make-rprivate /
}

# Runs inside the new namespaces of a node and stays: its process id is the handle to them.
hold() {
  local node=$1 home="$state/nodes/$1"
  cd /
  make_mounts_private
  hostname "$node"
  mount --bind "$home/tmp" /tmp
  mount --bind "$state/hosts" /etc/hosts
  [[ ! -d /dev/shm ]] || mount -t tmpfs -o mode=1777 shm /dev/shm
  ip link set lo up
  touch "$home/ready"
  exec -a "echelon-slurm $node" sleep infinity
}

start_holder() {
  local node=$1 home="$state/nodes/$1" log="$state/log/$1.start"
  mkdir -p "$home/spool"
  mkdir -m 1777 "$home/tmp"
  setsid unshare --net --uts --ipc --mount --propagation unchanged "$BASH" "$self" _hold "$node" \
    </dev/null >"$log" 2>&1 9<&- &
  disown
  echo $! >"$home/pid"
  wait_until 20 test -e "$home/ready" || die 3 "node $node does not start: $(last_line "$log")"
}

node_is_alive() {
  local pid
  pid=$(cat "$state/nodes/$1/pid" 2>/dev/null) && [[ /proc/$pid/root/tmp -ef $state/nodes/$1/tmp ]]
}

# enter NODE: sets `entering`, the words that start a command in its namespaces, below the same root folder
# as this script.
enter() {
  local pid
  [[ -d $state/nodes/$1 ]] || die 3 "no node '$1' in $state"
  node_is_alive "$1" || die 3 "node $1 is not running; start the cluster with: $0 up"
  pid=$(cat "$state/nodes/$1/pid")
  entering=(nsenter --target "$pid" --net --uts --ipc --mount --root --wd --)
}

in_node() {  # in_node NODE CMD...
  local entering
  enter "$1"
  "${entering[@]}" "${@:2}"
}

# start_daemon NODE CMD...: in a clean environment, so that nothing of the caller leaks into jobs.
start_daemon() {
  local entering
  enter "$1"
  "${entering[@]}" setsid env -i PATH="$PATH" LC_ALL=C SLURM_CONF="$conf" "${@:2}" \
    </dev/null >>"$state/log/$1.start" 2>&1 9<&- &
  daemons+=($!)
  disown
}

# A switch on the controller's node joins all: behind it no firewall rule of this machine applies, and all of
# it vanishes with the namespaces.
connect() {
  local nodes=$1 ctl why i
  ctl=$(cat "$state/nodes/ctl/pid")
  why=$({
    echo "link add $link type veth peer name port-host netns $ctl"
    echo "link set $link alias \"$(our_name)\""
    echo "addr add $net.254/24 dev $link"
    echo "link set $link up"
  } | ip -batch - 2>&1) ||
    die 3 "cannot connect this machine to the cluster (needs CAP_NET_ADMIN): ${why%%$'\n'*}"
  why=$({
    # A fixed address: else it is that of some node's port, and when that node dies the others lose the controller
    # until they ask for its address again, half a minute later.
    echo "link add br0 address 02:00:00:00:00:01 type bridge"
    echo "addr add $net.1/24 dev br0"
    echo "link set br0 up"
    echo "link set port-host master br0 up"
  } | in_node ctl ip -batch - 2>&1) || die 3 "cannot make the cluster's network: ${why%%$'\n'*}"
  for ((i = 0; i < nodes; ++i)); do connect_node "n$i"; done
}

connect_node() {
  local node=$1 why
  # A port outlives its node by the moment that the kernel takes to end the node's namespace.
  in_node ctl ip link del "port-$node" 2>/dev/null || true
  why=$({
    echo "link add port-$node type veth peer name eth0 netns $(cat "$state/nodes/$node/pid")"
    echo "link set port-$node master br0 up"
  } | in_node ctl ip -batch - 2>&1) || die 3 "cannot connect node $node: ${why%%$'\n'*}"
  printf '%s\n' "addr add $net.$((10 + ${node#n}))/24 dev eth0" "link set eth0 up" | in_node "$node" ip -batch -
}

# A process belongs to the cluster if its /tmp is one of ours, whoever started it. (Numbers of processes and
# namespaces kept in files would go stale and could hit a stranger.)
node_processes() {  # node_processes PATTERN OF NODES
  local ours
  # shellcheck disable=SC2086
  ours=$(stat --format=%d:%i "$state"/nodes/$1/tmp 2>/dev/null) || return 0
  { stat --format='%d:%i %n' --dereference /proc/[0-9]*/root/tmp 2>/dev/null || true; } |
    awk -v ours="$ours" 'BEGIN { n = split(ours, list); for (i = 1; i <= n; ++i) is_ours[list[i]] }
                         $1 in is_ours { split($2, part, "/"); print part[3] }'
}

kill_nodes() {  # kill_nodes PATTERN OF NODES
  local pids deadline=$((SECONDS + 30))
  while mapfile -t pids < <(node_processes "$1") && ((${#pids[@]})); do
    kill -KILL "${pids[@]}" 2>/dev/null || true
    ((SECONDS < deadline)) || die 3 "these processes of the cluster do not end: ${pids[*]}"
    sleep 0.05
  done
}

kill_cluster() {
  if [[ $(link_owner) == "$(our_name)" ]]; then ip link del "$link"; fi
  kill_nodes '*'
}

# --- network ------------------------------------------------------------------------------------------------

link_owner() { ip -o link show dev "$link" 2>/dev/null | sed -n 's/.*[[:space:]]alias //p'; }

# The folder and its identity: the same path below another root is another cluster.
our_name() { echo "$state $(stat --format=%d:%i "$state")"; }

check_network_is_free() {
  local other
  ! ip link show dev "$link" >/dev/null 2>&1 ||
    die 3 "network interface $link exists: $net.0/24 serves the cluster in '$(link_owner)'; end that one or" \
      "set ECHELON_SLURM_NET and ECHELON_SLURM_DIR"
  other=$(ip -4 -o addr show 2>/dev/null | awk '{ print $2, $4 }' | grep -F " $net." | head -n 1) || true
  [[ -z $other ]] || die 3 "this machine has an address in $net.0/24 already ($other); set ECHELON_SLURM_NET"
}
