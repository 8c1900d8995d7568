"""Slurm or its user takes the job away: it stops with a checkpoint in time, and goes on where it stopped."""
import os
import signal
import time

import slurm
from slurm import Failure, call, field
from trial import Trial, train_undisturbed

KILL_WAIT = 5  # seconds between SIGTERM and SIGKILL, of the local cluster
STOPPED = r"stopped after step \d+"


def requeue(work):
    """scontrol requeue"""
    trial = Trial(work, "requeue", 60)
    trial.wait_committed(10)
    trial.fault(lambda: call("scontrol", "requeue", trial.job))
    trial.detected(STOPPED, KILL_WAIT)
    return back_and_done(trial, work)


def preemption(work):
    """a job in a partition of higher priority"""
    trial = Trial(work, "preemption", 60)
    trial.wait_committed(10)
    trial.fault(lambda: call("sbatch", "--partition=urgent", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap", "sleep 3"))
    trial.detected(STOPPED, KILL_WAIT)
    return back_and_done(trial, work)


def sigterm(work):
    """SIGTERM to one rank"""
    trial = Trial(work, "sigterm", 60)
    trial.wait_committed(10)
    trial.fault(lambda: slurm.signal_rank(trial.job, 5, signal.SIGTERM))
    trial.detected(STOPPED, KILL_WAIT)
    return back_and_done(trial, work)


def sigterm_during_save(work):
    """SIGTERM to all ranks while a checkpoint is written"""
    trial = Trial(work, "sigterm_during_save", 60, "checkpoint.max_write_mb_per_s=0.3")
    trial.wait_step(10)
    trial.wait("a save", 60, trial.being_written)
    trial.fault(lambda: call("scancel", "--signal=TERM", trial.job + ".0"))
    if not trial.being_written():
        raise Failure("the save was over before the signal; it does not show what it should")
    trial.detected(STOPPED, 30)
    return back_and_done(trial, work)


def scancel(work):
    """scancel: the job must not come back; the same run, submitted again, goes on"""
    trial = Trial(work, "scancel", 60)
    trial.wait_committed(10)
    trial.fault(lambda: call("scancel", trial.job))
    trial.detected(STOPPED, KILL_WAIT)
    slurm.wait_for("the job to be cancelled", 60, lambda: field(trial.job, "JobState") == "CANCELLED")
    time.sleep(3)
    if field(trial.job, "JobState") != "CANCELLED":
        trial.fail("the cancelled job came back")
    trial.submit_again()
    trial.finish()
    trial.check(train_undisturbed(work, 60))
    return trial.row


def time_limit(work):
    """--time 1, stop signal 30 s before: two starts, none of them killed"""
    return limited(Trial(work, "time_limit", 400, options=("--time", "1", "--stop-before", "30")), work, 400)


def limited(trial, work, steps):
    while True:
        before = trial.size()
        trial.at_fault, trial.mark = trial.committed(), before
        slurm.wait_for("the end of a start", 240, lambda: trial.state() in ("PENDING", "COMPLETED", "TIMEOUT") and
                       trial.text(before), 0.2)
        if trial.state() == "COMPLETED":
            break
        if trial.state() == "TIMEOUT":
            trial.fail("the time limit killed the job")
        trial.row["said"] = trial.wait_said(STOPPED, 10, before)[0].strip()
        trial.bring_back()
    trial.row.update(detect_s=None, deadline_s=None)
    trial.check(train_undisturbed(work, steps))
    return trial.row


def back_and_done(trial, work):
    trial.bring_back()
    trial.finish()
    trial.check(train_undisturbed(work, trial.steps))
    return trial.row


DRILLS = [requeue, preemption, sigterm, sigterm_during_save, scancel, time_limit]
