"""Something stands still, is slow or full: it is named; the job ends in time and comes back, or goes on."""
import os
import signal
import threading
import time

import slurm
from deaths import BACK_OTHER_NODES, SILENCE, in_place_and_done, start
from slurm import node, on_node
from stops import done

SLOW_NOTICED = 60


def rank_frozen(work):
    """SIGSTOP to rank 3"""
    trial = start(work, "rank_frozen")
    where = trial.fault(lambda: slurm.signal_rank(trial.job, 3, signal.SIGSTOP))
    trial.detected(rf"rank 3 \({where}\) has sent no heartbeat.*SIGSTOP", SILENCE)
    return in_place_and_done(trial, work, BACK_OTHER_NODES)


def disk_full(work):
    """a node has no space left for checkpoints, until someone makes some"""
    trial = start(work, "disk_full", steps=100)
    between_saves(trial)
    trial.fault(lambda: fill_disk(trial))
    trial.detected(r"rank [45]'s shard on n2\b.*No space left", SILENCE)
    empty_disk(trial)
    return done(trial, work)


def disk_stays_full(work):
    """a node has no space left for checkpoints; after three failed saves the job ends, and is submitted again"""
    trial = start(work, "disk_stays_full", steps=100)
    between_saves(trial)
    trial.fault(lambda: fill_disk(trial))
    trial.detected(r"rank [45]'s shard on n2\b.*No space left", SILENCE)
    trial.finish("FAILED")
    if slurm.field(trial.job, "ExitCode") != "5:0":
        trial.fail(f"the job ended with {slurm.field(trial.job, 'ExitCode')}, expected 5:0")
    empty_disk(trial)
    trial.submit_again()
    return done(trial, work)


def between_saves(trial):
    """A node whose files go elsewhere from the middle of a save on is another fault than a full disk."""
    trial.wait("a moment between two saves", 60, lambda: not trial.being_written() and trial.last_step() % 10 in (3, 4, 5, 6))


def fill_disk(trial):
    """What n2 writes below the checkpoints' folder goes to a disk of four pages; all else it sees as before."""
    folder, disk = trial.folder / "checkpoints", f"/tmp/disk-{trial.job}"
    on_node("n2", "bash", "-c", f"mkdir {disk} && mount -t tmpfs -o size=16k none {disk} && mkdir {disk}/upper {disk}/work && "
            f"mount -t overlay -o lowerdir={folder},upperdir={disk}/upper,workdir={disk}/work none {folder}")


def empty_disk(trial):
    on_node("n2", "umount", "--lazy", str(trial.folder / "checkpoints"))


def node_slow_network(work):
    """the network of a node becomes so slow that a step takes ten times as long; it is named, the run goes on"""
    trial = start(work, "node_slow_network", steps=120)
    trial.fault(lambda: node("slow", "n2", "6mbit"))
    trial.detected(r"node n2 has a slow network", SLOW_NOTICED)
    node("restore", "n2")
    return done(trial, work)


class Slowed:
    """Lets a node's ranks run for a tenth of the time."""

    def __init__(self, job, name, share=0.1, period=0.1):
        self.pids = [pid for pid, where in slurm.rank_processes(job).values() if where == name]
        self.share, self.period, self.over = share, period, False
        self.thread = threading.Thread(target=self.throttle)
        self.thread.start()

    def throttle(self):
        while not self.over:
            self.signal(signal.SIGSTOP)
            time.sleep(self.period * (1 - self.share))
            self.signal(signal.SIGCONT)
            time.sleep(self.period * self.share)

    def signal(self, number):
        for pid in self.pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                self.over = True

    def end(self):
        self.over = True
        self.thread.join()


def node_slow_cores(work):
    """the processors of a node become ten times as slow; it is named, the run goes on"""
    trial = start(work, "node_slow_cores", steps=120)
    slowed = trial.fault(lambda: Slowed(trial.job, "n2"))
    try:
        trial.detected(r"(rank [45] \(n2\)|node n2) is a straggler", SLOW_NOTICED)
    finally:
        slowed.end()
    return done(trial, work)


DRILLS = [rank_frozen, disk_full, disk_stays_full, node_slow_network, node_slow_cores]
