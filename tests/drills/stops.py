"""Slurm or its user takes the job away: it stops with a checkpoint in time, and goes on where it stopped."""
import json
import signal
import time

import slurm
from slurm import Failure, call, field
from trial import OVER, Trial, train_undisturbed

KILL_WAIT = 5  # seconds between SIGTERM and SIGKILL, of the local cluster
STOPPED = r"stopped after step \d+"  # saved and about to leave
CAUSE = r"stopping after step \d+: "


def stopped_within(trial, seconds):
    trial.detected(STOPPED, seconds)
    trial.row["said"] = trial.wait_said(CAUSE, 10, trial.mark)[0]


def stopped_and_back(work, name, inject):
    """The job stops in time when inject(trial) asks it to, and comes back."""
    trial = Trial(work, name, 60)
    trial.wait_committed(10)
    trial.fault(lambda: inject(trial))
    stopped_within(trial, KILL_WAIT)
    return back_and_done(trial, work)


def requeue(work):
    """scontrol requeue"""
    return stopped_and_back(work, "requeue", lambda trial: call("scontrol", "requeue", trial.job))


def preemption(work):
    """a job in a partition of higher priority"""
    urgent = ("sbatch", "--partition=urgent", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap", "sleep 3")
    return stopped_and_back(work, "preemption", lambda _: call(*urgent))


def sigterm(work):
    """SIGTERM to one rank"""
    return stopped_and_back(work, "sigterm", lambda trial: slurm.signal_rank(trial.job, 5, signal.SIGTERM))


def sigterm_during_save(work):
    """SIGTERM to all ranks while a checkpoint is written"""
    trial = Trial(work, "sigterm_during_save", 60, "checkpoint.max_write_mb_per_s=0.3")
    trial.wait_step(10)
    trial.wait("a save", 60, trial.being_written)
    trial.fault(lambda: call("scancel", "--signal=TERM", trial.job + ".0"))
    if not trial.being_written():
        raise Failure("the save was over before the signal; it does not show what it should")
    stopped_within(trial, 30)
    return back_and_done(trial, work)


def scancel(work):
    """scancel: the job must not come back; the same run, submitted again, goes on"""
    trial = Trial(work, "scancel", 60)
    trial.wait_committed(10)
    trial.fault(lambda: call("scancel", trial.job))
    stopped_within(trial, KILL_WAIT)
    slurm.wait_for("the job to be cancelled", 60, lambda: field(trial.job, "JobState") == "CANCELLED")
    time.sleep(3)
    if field(trial.job, "JobState") != "CANCELLED":
        trial.fail("the cancelled job came back")
    trial.submit_again()
    return done(trial, work)


def time_limit(work):
    """--time 1: the run stops when one more step, a save and the margin no longer fit"""
    trial = Trial(work, "time_limit", 600, minutes=1)
    return limited(trial, work, 1)


def time_limit_signal(work):
    """--time 2 --stop-before 30: the signal comes before the clock"""
    trial = Trial(work, "time_limit_signal", 800, options=("--time", "2", "--stop-before", "30"))
    return limited(trial, work, 1)


def limited(trial, work, starts_again):
    """A job that is stopped by its time at least so often, never killed by it, nothing lost."""
    stops = 0
    while True:
        since = trial.size()
        trial.at_fault, trial.mark = trial.committed(), since
        slurm.wait_for("the end of a start", 240, lambda: trial.text(since) and trial.state() in ("PENDING", *OVER), 0.2)
        if trial.state() in OVER:
            break
        trial.row["said"] = trial.wait_said(CAUSE, 10, since)[0]
        trial.bring_back()
        stops += 1
    trial.finish()
    trial.check(train_undisturbed(work, trial.steps))
    if stops < starts_again or trial.row["lost_steps"]:
        trial.fail(f"the job was stopped {stops} times and lost {trial.row['lost_steps']} steps")
    return trial.row


def time_limit_too_short(work):
    """--time 1 when a save alone takes longer than that: told at once, nothing trained in vain"""
    trial = Trial(work, "time_limit_too_short", 60)
    trial.wait_committed(10)
    call("scancel", trial.job)
    slurm.wait_for("the job to be cancelled", 60, lambda: trial.state() == "CANCELLED")
    ledger = trial.folder / "goodput.json"
    account = json.loads(ledger.read_text())
    account["starts"][-1]["took"]["save"] = 90.0  # as if its disk had been that slow
    ledger.write_text(json.dumps(account))
    trial.minutes = 1
    before = trial.committed()
    trial.submit()
    trial.faulted, trial.mark = time.time(), 0
    trial.finish("FAILED")
    trial.detected(r"save", 60)
    if field(trial.job, "ExitCode") != "2:0" or trial.last_step() or trial.committed() != before:
        trial.fail(f"the job ended with {field(trial.job, 'ExitCode')} after step {trial.last_step()}, expected 2:0 and no step")
    trial.at_fault, trial.minutes = before, None
    trial.submit_again()
    return done(trial, work)


def back_and_done(trial, work):
    trial.bring_back()
    return done(trial, work)


def done(trial, work):
    trial.finish()
    trial.check(train_undisturbed(work, trial.steps, ranks=8 - 2 * trial.spare))
    return trial.row


DRILLS = [requeue, preemption, sigterm, sigterm_during_save, scancel, time_limit, time_limit_signal, time_limit_too_short]
