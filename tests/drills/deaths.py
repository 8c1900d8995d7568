"""Something dies or is cut off: the others notice, name it and end in time; the job comes back and loses only steps after
its newest checkpoint."""
import signal

import slurm
from slurm import node
from stops import back_and_done
from trial import Trial

DEATH = 5  # a process that ends breaks its connection, and one more round of heartbeats tells whether its node is lost
SILENCE = 10  # cluster.heartbeat_timeout_s of the drills' recipe is 5 s, and a moment to tell
SLURM_NOTICES = 120  # SlurmdTimeout is 60 s on the local cluster, and Slurm looks every 20


def start(work, name, *overrides, steps=60):
    trial = Trial(work, name, steps, *overrides)
    trial.wait_committed(20)
    return trial


def death_of(rank, where):
    """What tells of a rank that was killed. Newer versions of Slurm (24.11) kill all others before one can speak."""
    named = rf"rank {rank} \({where}\) has died"
    older = " 22." in slurm.call("sbatch", "--version")
    return named if older else rf"{named}|lost a rank to signal 9"


def rank_killed(work):
    """kill -9 of rank 5"""
    trial = start(work, "rank_killed")
    where = trial.fault(lambda: slurm.signal_rank(trial.job, 5, signal.SIGKILL))
    trial.detected(death_of(5, where), DEATH)
    return back_and_done(trial, work)


def rank_0_killed(work):
    """kill -9 of rank 0, which writes log and ledger"""
    trial = start(work, "rank_0_killed")
    where = trial.fault(lambda: slurm.signal_rank(trial.job, 0, signal.SIGKILL))
    trial.detected(death_of(0, where), DEATH)
    return back_and_done(trial, work)


def slurmd_killed(work):
    """slurmd of a node crashes and stays away until Slurm gives the node up"""
    trial = start(work, "slurmd_killed", "checkpoint.every_steps=50", steps=1500)
    trial.fault(lambda: node("stop-slurmd", "n2"))
    trial.detected(r"Node failure on n2", SLURM_NOTICES)
    node("restore", "n2")
    return back_and_done(trial, work)


def node_failed(work):
    """a node loses its power"""
    trial = start(work, "node_failed")
    trial.fault(lambda: node("kill", "n2"))
    trial.detected(r"node n2 (is lost|\(ranks 4, 5\) has sent no heartbeat)", DEATH)
    trial.wait_ended()
    node("restore", "n2")
    return back_and_done(trial, work)


def node_cut(work):
    """a node is cut off the network"""
    trial = start(work, "node_cut")
    trial.fault(lambda: node("cut", "n2"))
    trial.detected(r"node n2 \(ranks 4, 5\) has sent no heartbeat", SILENCE)
    trial.wait_ended()
    node("restore", "n2")
    return back_and_done(trial, work)


DRILLS = [rank_killed, rank_0_killed, slurmd_killed, node_failed, node_cut]
