#!/usr/bin/env bash
# What slurm.sh can do to a node: each fault can be seen from outside of it, and restore undoes each.
# shellcheck disable=SC2016
source "$(dirname "$0")/lib.sh"
use_cluster
net=${ECHELON_SLURM_NET:-10.77.0}
trap '"$slurm_sh" restore n1 || true' EXIT

state_of() { sinfo --noheader --partition=main --nodes="$1" --format=%T; }
answers() { timeout 5 "$slurm_sh" exec n0 bash -c "</dev/tcp/$net.11/6818" 2>/dev/null; }  # slurmd's port
restore() {
  "$slurm_sh" restore n1 >out.txt 2>&1 || fail "restore after $1" out.txt
  expect_equal "state after $1 and restore" idle "$(state_of n1)"
  answers || fail "slurmd does not answer after $1 and restore"
}
refuses() {  # refuses EXIT_CODE REGEX ARGUMENTS
  exits "$1" out.txt "$slurm_sh" "${@:3}"
  expect_match "what ${*:3} says" "^slurm.sh: $2" "$(cat out.txt)"
  expect_equal "lines of it" 1 "$(wc -l <out.txt)" out.txt
}

for command in stop-slurmd start-slurmd cut drain undrain restore; do
  refuses 2 "$command: no node 'n7'; expected one of n0 to n3" $command n7
  refuses 2 "$command: expected a node" $command
done
refuses 2 "slow: no node 'ctl'" slow ctl 20mbit
refuses 2 'slow: expected a rate' slow n1 fast
refuses 2 'slow: expected a delay' slow n1 20mbit 5
refuses 2 'slow: expected a node, a rate' slow n1
refuses 3 'slurmd of node n1 is already running' start-slurmd n1
refuses 3 'node n1 is not drained, it is idle' undrain n1

answers || fail "slurmd of n1 does not answer before any fault"

"$slurm_sh" drain n1 a bad fan
expect_equal "a drained node" drained "$(state_of n1)"
expect_match "its reason" 'Reason=a bad fan' "$(scontrol --oneliner show node n1)"
"$slurm_sh" undrain n1
expect_equal "an undrained node" idle "$(state_of n1)"
"$slurm_sh" drain n1
restore drain

"$slurm_sh" cut n1
! answers || fail "a node that is cut off answers"
restore cut

# 3 MB take a moment, or with 8 Mbit/s three seconds, in either direction.
seconds() {  # seconds FROM TO: to send 3 MB
  "$slurm_sh" exec "$2" python3 -c 'import socket, sys
server = socket.create_server(("", 7001)); open(sys.argv[1], "w"); peer = server.accept()[0]
while peer.recv(65536): pass
peer.send(b".")' "$work/listens" &
  local server=$!
  wait_for 10 "the server on $2" test -e listens
  "$slurm_sh" exec "$1" python3 -c 'import socket, sys, time
peer = socket.create_connection((sys.argv[1], 7001)); began = time.monotonic()
peer.sendall(bytes(3000000)); peer.shutdown(socket.SHUT_WR); peer.recv(1); print(time.monotonic() - began)' "$2"
  wait $server
  rm listens
}
is_slow() { awk -v seconds="$1" 'BEGIN { exit seconds < 2 }'; }
"$slurm_sh" slow n1 8mbit
is_slow "$(seconds n1 n2)" || fail "a slow node sends 3 MB in less than 2 s at 8 Mbit/s"
is_slow "$(seconds n2 n1)" || fail "a slow node receives 3 MB in less than 2 s at 8 Mbit/s"
restore slow
! "$slurm_sh" exec n1 tc qdisc show dev eth0 | grep tbf || fail "the node is still slow"
! "$slurm_sh" exec ctl tc qdisc show dev port-n1 | grep tbf || fail "the way to the node is still slow"

"$slurm_sh" stop-slurmd n1
! answers || fail "slurmd answers after stop-slurmd"
refuses 3 'slurmd of node n1 is not running' stop-slurmd n1
"$slurm_sh" start-slurmd n1
wait_for 20 "slurmd of n1" answers
"$slurm_sh" stop-slurmd n1
restore stop-slurmd

"$slurm_sh" exec n1 touch /tmp/before
"$slurm_sh" kill n1
! answers || fail "a dead node answers"
refuses 3 'node n1 is not running; bring it back with' slow n1 20mbit
restore kill
expect_equal "where a step on the restored node runs, and its /tmp" "n1 0" \
  "$(srun --nodelist=n1 --nodes=1 --mpi=pmix bash -c 'echo "$(uname -n) $(ls /tmp | grep -c before)"')"
expect_match "a step on all nodes" '^n0 n1 n2 n3$' "$(srun --nodes=4 --mpi=pmix uname -n | sort | xargs)"
