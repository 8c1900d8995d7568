"""Something dies or is cut off: the others notice, name it and end in time; the ranks start again on the nodes that are left,
or the job comes back, and loses only steps after its newest checkpoint."""
import signal
import time

import slurm
from slurm import node
from stops import back_and_done, done
from trial import Trial

BACK = 5  # until the next step after the death of a rank
BACK_OTHER_NODES = 15  # after the loss of a node, which is silent for 5 s
DEATH = 5  # a process that ends breaks its connection, and one more round of heartbeats tells whether its node is lost
SILENCE = 10  # cluster.heartbeat_timeout_s of the drills' recipe is 5 s, and a moment to tell
SLURM_NOTICES = 120  # SlurmdTimeout is 60 s on the local cluster, and Slurm looks every 20


def start(work, name, *overrides, steps=60, spare=0, options=()):
    trial = Trial(work, name, steps, *overrides, spare=spare, options=options)
    trial.wait_committed(20)
    return trial


def in_place_and_done(trial, work, seconds):
    """The ranks start again on the nodes that the job has; to the end."""
    trial.back_in_place(seconds)
    return done(trial, work)


def death_of(rank, where):
    """What tells of a rank that was killed. Newer versions of Slurm (24.11) kill all others before one can speak."""
    named = rf"rank {rank} \({where}\) has died"
    older = " 22." in slurm.call("sbatch", "--version")
    return named if older else rf"{named}|lost a rank to signal 9"


def kill(trial, rank):
    return trial.fault(lambda: slurm.signal_rank(trial.job, rank, signal.SIGKILL))


def with_death_of(rank, work, name, **started):
    trial = start(work, name, **started)
    trial.detected(death_of(rank, kill(trial, rank)), DEATH)
    return trial


def rank_killed(work):
    """kill -9 of rank 5"""
    return in_place_and_done(with_death_of(5, work, "rank_killed"), work, BACK)


def rank_killed_requeued(work):
    """kill -9 of rank 5 of a job that may not start again in place: --max-restarts 0"""
    return back_and_done(with_death_of(5, work, "rank_killed_requeued", options=("--max-restarts", "0")), work)


def rank_0_killed(work):
    """kill -9 of rank 0, which writes log and ledger"""
    return in_place_and_done(with_death_of(0, work, "rank_0_killed"), work, BACK)


def killed_in_recovery(work):
    """kill -9 of rank 5, and of rank 2 as soon as it runs again"""
    trial = start(work, "killed_in_recovery")
    kill(trial, 5)
    again = trial.size()
    trial.wait_said("resumed from step", 60, again)
    kill(trial, 2)
    return in_place_and_done(trial, work, BACK)


def killed_while_loading(work):
    """kill -9 of rank 5, and of rank 2 of the next start while it loads its libraries: srun --wait ends the others"""
    trial = start(work, "killed_while_loading")
    first = slurm.rank_processes(trial.job)
    kill(trial, 5)

    def rank_2_again():
        found = slurm.rank_processes(trial.job).get(2)
        return found and found != first[2]
    trial.wait("the second rank 2", 60, rank_2_again)
    kill(trial, 2)
    return in_place_and_done(trial, work, 30)


def slurmd_killed(work):
    """slurmd of a node crashes and stays away until Slurm gives the node up"""
    trial = start(work, "slurmd_killed", "checkpoint.every_steps=50", steps=1500)
    trial.fault(lambda: node("stop-slurmd", "n2"))
    trial.detected(r"Node failure on n2", SLURM_NOTICES)
    node("restore", "n2")
    return back_and_done(trial, work)


# Slurm 24.11 may end the other ranks before they can tell; then the supervisor's line is the first.
LOST_N1 = r"node n1 (is lost|\(ranks 2, 3\) has sent no heartbeat)| without n1 "


def spare_instead(work, name, inject, noticed):
    trial = start(work, name, spare=2)
    trial.fault(inject)
    trial.detected(LOST_N1, noticed)
    return in_place_and_done(trial, work, BACK_OTHER_NODES)


def node_failed_spare(work):
    """a node loses its power; a spare one takes its place"""
    return spare_instead(work, "node_failed_spare", lambda: node("kill", "n1"), DEATH)


def node_cut_spare(work):
    """a node is cut off the network; a spare one takes its place"""
    return spare_instead(work, "node_cut_spare", lambda: node("cut", "n1"), SILENCE)


def spare_failed_too(work):
    """a node and the first spare one lose their power together; the second spare one takes the place"""
    return spare_instead(work, "spare_failed_too", lambda: (node("kill", "n2"), node("kill", "n1")), DEATH)


def fewer_copies(work):
    """a node loses its power, and there is no spare one: cluster.shrink lets two of four copies of the state go on"""
    trial = start(work, "fewer_copies", "shard.strategy=hybrid_shard", "cluster.shrink=allow")
    trial.fault(lambda: node("kill", "n2"))
    trial.back_in_place(BACK_OTHER_NODES)
    trial.wait_said(r"starts again in place on n0,n1 ", 60)
    trial.finish()  # other sums, so other last digits
    trial.check_whole()
    return trial.row


def batch_host_failed(work):
    """the node of the batch script loses its power: Slurm queues the job again when it gives the node up"""
    trial = start(work, "batch_host_failed")
    trial.fault(lambda: node("kill", "n0"))
    slurm.wait_for("the job to be queued again", 200, trial.is_pending, 0.2)
    trial.row["detect_s"], trial.row["deadline_s"] = round(time.time() - trial.faulted, 2), SLURM_NOTICES
    node("restore", "n0")
    return back_and_done(trial, work)


def node_failed(work):
    """a node loses its power, and there is no spare one: the job queues itself again"""
    trial = start(work, "node_failed")
    trial.fault(lambda: node("kill", "n2"))
    trial.detected(r"node n2 (is lost|\(ranks 4, 5\) has sent no heartbeat)", DEATH)
    trial.wait_ended()
    node("restore", "n2")
    return back_and_done(trial, work)


def node_cut(work):
    """a node is cut off the network, and there is no spare one: the job queues itself again"""
    trial = start(work, "node_cut")
    trial.fault(lambda: node("cut", "n2"))
    trial.detected(r"node n2 \(ranks 4, 5\) has sent no heartbeat", SILENCE)
    trial.wait_ended()
    node("restore", "n2")
    return back_and_done(trial, work)


DRILLS = [rank_killed, rank_killed_requeued, rank_0_killed, killed_in_recovery, killed_while_loading, slurmd_killed,
          node_failed_spare, node_cut_spare, spare_failed_too, fewer_copies, node_failed, node_cut, batch_host_failed]
