#!/usr/bin/env bash
# slurm.sh up and down: idempotent, one at a time, and nothing is left behind. Uses a cluster of its own.
# shellcheck disable=SC2016
source "$(dirname "$0")/lib.sh"
export ECHELON_SLURM_DIR=/var/lib/echelon-slurm-lifecycle ECHELON_SLURM_NET=10.80.0
trap '"$slurm_sh" down >/dev/null' EXIT

# What a cluster could leave on the machine. Zombies do not count: reaping them is up to the machine's init.
traces() {
  ip -o link show | awk '{ print $2 }'
  cut -d' ' -f1-3 /proc/self/mounts
  cksum /etc/hosts
  ls /var/lib /run
  { find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/net' -printf '%l\n' 2>/dev/null || true; } | sort -u
  ps -eo stat=,args= | awk '$1 !~ /^Z/ && /slurmctld|slurmd|slurmstepd|munged|slurm-orphan/ && !/awk/'
}

"$slurm_sh" down >/dev/null
traces >before.txt

"$slurm_sh" up 2 >up.txt || fail "first up" up.txt
pids=$(cat $ECHELON_SLURM_DIR/nodes/*/pid)
expect_match "second up" 'up already' "$("$slurm_sh" up 2)"
expect_equal "nodes' processes after the second up" "$pids" "$(cat $ECHELON_SLURM_DIR/nodes/*/pid)"
"$slurm_sh" status 2 >status.txt || fail "status 2 on two nodes" status.txt

# The lock is the folder itself.
exec 9<$ECHELON_SLURM_DIR
flock 9
exits 3 locked.txt "$slurm_sh" up 3
expect_match "its message" 'another slurm.sh is at work' "$(cat locked.txt)"
exec 9<&-

"$slurm_sh" up 3 >replace.txt || fail "up 3 over two idle nodes" replace.txt
expect_match "up 3 over two nodes" 'replacing the cluster of 2 nodes' "$(cat replace.txt)"
"$slurm_sh" status 3 >status.txt || fail "status 3" status.txt
exits 3 status.txt "$slurm_sh" status 2
# A process that has left its job's process group and session, and a job that runs.
orphan='setsid bash -c "exec -a slurm-orphan sleep 600" </dev/null >/dev/null 2>&1 &'
(use_cluster && srun --nodes=3 bash -c "$orphan")
(use_cluster && sbatch --output=/dev/null --nodes=3 --wrap='srun sleep 600') >/dev/null
exits 3 busy.txt "$slurm_sh" up 2  # while a job runs

"$slurm_sh" down >/dev/null
traces >after.txt
diff before.txt after.txt || fail "down left something behind (see the lines above)"
expect_match "second down" 'already down' "$("$slurm_sh" down)"
exits 3 env.txt "$slurm_sh" env

# Refusals: one line, the right code, nothing touched.
# The other user may not read this clone, which often lies in a home of mode 700.
scripts=$(mktemp -d)
trap '"$slurm_sh" down >/dev/null; rm -rf "$scripts"' EXIT
cp "$ECHELON_SOURCE_DIR"/cluster/local/*.sh "$scripts"
chmod 755 "$scripts" "$scripts"/*
exits 3 refused.txt setpriv --reuid=65534 --regid=65534 --clear-groups "$scripts/slurm.sh" up
expect_match "its message" '^slurm.sh: must be root' "$(cat refused.txt)"
expect_equal "lines of it" 1 "$(wc -l <refused.txt)" refused.txt
mkdir foreign
touch foreign/precious
for command in up down; do
  ECHELON_SLURM_DIR=$work/foreign exits 3 refused.txt "$slurm_sh" $command  # not a cluster's
done
[[ -e foreign/precious ]] || fail "a folder that is not a cluster's was emptied"

# A file that is not executable in munged's place, in a mount namespace of its own.
hide_munged='source "$ECHELON_SOURCE_DIR/cluster/local/nodes.sh" && make_mounts_private &&
  mount --bind up.txt "$(realpath "$(PATH=$PATH:/usr/sbin type -P munged)")"'
exits 3 refused.txt unshare --mount --propagation unchanged bash -c "$hide_munged && exec $slurm_sh up"
expect_match "its message" 'missing: munged; install: apt-get install munge$' "$(cat refused.txt)"
[[ ! -e $ECHELON_SLURM_DIR ]] || fail "a refused up left $ECHELON_SLURM_DIR"
