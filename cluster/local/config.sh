# shellcheck shell=bash disable=SC2154
# Part of slurm.sh: every configuration file of the cluster.
# Uses of slurm.sh: $state (folder of the cluster), $net, $conf.

write_hosts() {
  local nodes=$1 i
  printf '127.0.0.1 localhost\n%s.254 %s\n%s.1 ctl\n' "$net" "$(uname -n)" "$net"
  for ((i = 0; i < nodes; ++i)); do echo "$net.$((10 + i)) n$i"; done
}

# Nothing here uses cgroups (process tracking is linuxproc, there is no task plugin), but slurmd loads a
# plugin for them all the same, and `autodetect` gives up where cgroups are mounted in an unusual way.
cgroup_plugin() {
  local version
  version=$(slurmd -V | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
  if [[ $(printf '%s\n' 23.11 "$version" | sort -V | head -n 1) == 23.11 ]]; then
    echo disabled
  else
    echo cgroup/v1
  fi
}

write_slurm_conf() {
  local nodes=$1 cpus=${ECHELON_SLURM_CPUS:-2} i
  cat <<CONF
ClusterName=echelon-local
SlurmctldHost=ctl($net.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job may start again after cred_expire seconds (Slurm's default is 120).
AuthInfo=socket=$state/munge/socket,cred_expire=20
StateSaveLocation=$state/ctl-state
SlurmdSpoolDir=$state/nodes/%n/spool
SlurmdPidFile=$state/nodes/%n/slurmd.pid
SlurmctldPidFile=$state/slurmctld.pid
SlurmctldLogFile=$state/log/slurmctld.log
SlurmdLogFile=$state/log/%n.log
MailProg=/bin/true
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
# Believe the lines below, not the machine: real cores and memory do not limit the number of nodes.
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
# All nodes share a few cores: be patient with slow answers, quick to schedule.
MessageTimeout=60
BatchStartTimeout=120
SlurmdTimeout=60
SchedulerParameters=batch_sched_delay=0,sched_interval=5,bf_interval=5
PropagateResourceLimits=NONE
CONF
  for ((i = 0; i < nodes; ++i)); do
    echo "NodeName=n$i NodeAddr=$net.$((10 + i)) CPUs=$cpus RealMemory=4000"
  done
  # OverSubscribe=YES: jobs that ask with --oversubscribe share CPUs; all others can still be preempted.
  local common="Nodes=n[0-$((nodes - 1))] OverSubscribe=YES:4 MaxTime=INFINITE"
  echo "PartitionName=main $common PriorityTier=1 Default=YES"
  echo "PartitionName=urgent $common PriorityTier=10"
}

write_files() {
  mkdir "$state"/{log,munge,nodes,ctl-state}
  write_hosts "$1" >"$state/hosts"
  write_slurm_conf "$1" >"$conf"
  echo "CgroupPlugin=$(cgroup_plugin)" >"$state/cgroup.conf"
  # As in train.sbatch, which says why.
  echo "PMIxCollFence=ring" >"$state/mpi.conf"
  (umask 077 && head -c 1024 /dev/urandom >"$state/munge/key")
}
