"""One job under a drill: submitted as a user would, followed, brought back, checked to the last digit, measured."""
import json
import os
import re
import shutil
import subprocess
import time

import slurm
from slurm import Failure, call, wait_for

RECIPE = slurm.ROOT / "tests/drills/steady.yaml"
ECHELON = os.environ.get("ECHELON_BIN", str(slurm.ROOT / "build/release/bin/echelon"))
ECHELON_CKPT = os.environ.get("ECHELON_CKPT_BIN", str(slurm.ROOT / "build/release/bin/echelon-ckpt"))
# From rank 0's last account of itself until srun has seen all ranks go, on a busy machine. The ledger learns of it from
# the next start of the same job; the last start has none.
LEAVING_S = 4
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
STEP = re.compile(r"^step (\d+)/", re.M)
RESUMED = re.compile(r"resumed from step (\d+)")


class Trial:
    """A run in its own folder below `work`, on four nodes with two ranks each; with spare nodes on as many fewer."""

    def __init__(self, work, name, steps, *overrides, options=(), minutes=None, spare=0):
        self.folder = work / name
        self.spare = spare
        shutil.rmtree(self.folder, ignore_errors=True)
        self.steps = steps
        self.overrides = [f"train.steps={steps}", *overrides]
        self.options = options or ("--time", "60")
        self.minutes = minutes  # a limit that `submit` refuses, without a signal ahead of it
        self.logs = []
        self.row = {}
        self.mark = 0  # where the log was at the newest fault
        self.submit()

    def submit(self):
        words = [ECHELON, "submit", RECIPE, f"run.dir={self.folder}", *self.overrides, "--nodes", 4 - self.spare,
                 "--spare-nodes", self.spare, "--tasks-per-node", "2", *self.options]
        if self.minutes:
            script = self.folder / "job.sbatch"
            text = call(*words, "--print")
            text = re.sub(r"^#SBATCH --signal=.*\n", "", text, flags=re.M)
            script.write_text(re.sub(r"^#SBATCH --time=.*$", f"#SBATCH --time={self.minutes}", text, flags=re.M))
            self.job = call("sbatch", "--parsable", script).strip()
        else:
            self.job = call(*words).split()[0]
        self.log = self.folder / "logs" / f"slurm-{self.job}.out"
        self.logs.append(self.log)

    # --- what can be seen of it

    def text(self, since=0):
        try:
            with self.log.open("rb") as file:
                file.seek(since)
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def size(self):
        return self.log.stat().st_size if self.log.exists() else 0

    def state(self):
        return slurm.field(self.job, "JobState")

    def last_step(self, since=0):
        found = STEP.findall(self.text(since))
        return int(found[-1]) if found else 0

    def committed(self):
        """Step of the newest committed checkpoint."""
        return max((int(path.parent.name[5:].split(".")[0]) for path in self.folder.glob("checkpoints/step-*/COMMIT")), default=0)

    def fail(self, text):
        raise Failure(f"{text}; the log, without its steps, ends in:\n" +
                      "\n".join([line for line in self.text().splitlines() if not STEP.match(line)][-8:]))

    def being_written(self):
        """Checkpoints that are not committed yet."""
        return [path for path in self.folder.glob("checkpoints/step-*") if not (path / "COMMIT").exists()]

    # --- waiting

    def wait(self, what, seconds, condition):
        """As slurm.wait_for; fails early when the job has ended."""
        looked = [time.monotonic()]

        def met():
            result = condition()
            if not result and time.monotonic() - looked[0] > 1:
                looked[0] = time.monotonic()
                if self.state() in OVER and not condition():
                    self.fail(f"job {self.job} is {self.state()} before {what}")
            return result

        return wait_for(what, seconds, met)

    def wait_step(self, step, since=0):
        self.wait(f"step {step}", 240, lambda: self.last_step(since) >= step)

    def wait_committed(self, step):
        self.wait(f"a commit of step {step}", 240, lambda: self.committed() >= step)

    def wait_said(self, pattern, seconds, since=0):
        """The first line of the log that matches, and the time at which it was seen."""
        found = self.wait(f"a line that matches '{pattern}'", seconds,
                          lambda: re.search(f"^.*(?:{pattern}).*$", self.text(since), re.M))
        return found[0], time.time()

    # --- the fault, and what comes after

    def fault(self, inject):
        """Runs inject(); from now on time counts, and nothing committed until now may be lost."""
        self.at_fault = self.committed()
        self.mark = self.size()
        result = inject()
        self.row["fault_at"] = self.last_step()
        self.faulted = time.time()
        self.restarts_before = len(self.restarts())
        return result

    def detected(self, pattern, seconds):
        """The line that tells what happened. Its time since the fault is held to `seconds`."""
        line, when = self.wait_said(pattern, max(4 * seconds, 60), self.mark)
        self.row["detect_s"] = round(max(0.0, when - self.faulted), 2)
        self.row["deadline_s"] = seconds
        self.row["said"] = line.strip()
        return line

    def wait_ended(self, seconds=240):
        """Until the script has noted the end of the start that the fault hit."""
        notes = self.folder / "logs" / f"starts-{self.job}.txt"
        self.wait("the end of the ranks", seconds, lambda: notes.read_text().splitlines()[-1].startswith(("end", "held")))

    def restarts(self):
        """What the run has noted of its restarts in place."""
        path = self.folder / "logs/restarts.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def back_in_place(self, seconds):
        """Waits for the first new step; measures since the fault. The job must not have been queued again."""
        self.wait("a new step", 240, self.new_step)
        self.row["back_s"] = round(time.time() - self.faulted, 2)
        self.row["back_deadline_s"] = seconds
        if slurm.field(self.job, "Restarts") != "0":
            self.fail("the job was queued again")
        self.expect_resumed(self.mark)

    def bring_back(self, repair=lambda: None):
        """Starts the queued job without Slurm's delay, unless it has started by itself; measures until its first new step.
        A start in place is measured since the fault. `repair` is called before a queued job needs its nodes."""
        permitted = None
        deadline = time.monotonic() + 300
        while not self.new_step():
            if time.monotonic() > deadline or self.state() in OVER:
                self.fail(f"job {self.job} does not come back, it is {self.state()}")
            if permitted is None and self.is_pending():
                repair()
                time.sleep(2)  # nodes refuse a new start in the second in which they canceled the permits of the old one
                permitted = time.time()
                call("scontrol", "update", f"jobid={self.job}", "StartTime=now", check=False)
            time.sleep(0.02)
        back = round(time.time() - self.faulted, 2)
        queued = permitted or len(self.restarts()) <= self.restarts_before
        self.row["restart_s"] = round(time.time() - (permitted or self.began_last()), 2) if queued else None
        if permitted is None:
            repair()
        if not queued:
            self.row["back_s"] = back
        self.expect_resumed(self.mark)

    def is_pending(self):
        return self.state() == "PENDING" and not call("squeue", "--noheader", "--states=COMPLETING", f"--jobs={self.job}", check=False)

    def new_step(self):
        """Whether a start after the fault has trained a step."""
        return re.search(r"resumed from step .*?^step \d+/", self.text(self.mark), re.M | re.S)

    def began_last(self):
        notes = (self.folder / "logs" / f"starts-{self.job}.txt").read_text().splitlines()
        return float([note for note in notes if note.startswith(("start", "restart"))][-1].split()[2])

    def submit_again(self):
        """Another job of the same run; measured like a start of the first."""
        began = time.time()
        self.submit()
        self.wait("the first step of the next job", 240, self.last_step)
        self.row["restart_s"] = round(time.time() - began, 2)
        self.expect_resumed(0)

    def expect_resumed(self, since):
        resumed = RESUMED.search(self.text(since))
        step = int(resumed[1]) if resumed else 0
        if step < self.at_fault:
            self.fail(f"committed steps are lost: step {self.at_fault} was, the job goes on from {step}")

    def finish(self, state="COMPLETED"):
        wait_for(f"the end of job {self.job}", 300, lambda: self.state() in OVER, 0.2)
        if self.state() != state:
            self.fail(f"job {self.job} is {self.state()}, expected {state}")

    # --- checks on the whole run

    def starts(self):
        """(first step, last step) of each start that made a step, from the log."""
        found = []
        text = "".join(log.read_text(errors="replace") for log in self.logs)
        for match in re.finditer(r"resumed from step (\d+)|^step (\d+)/", text, re.M):
            if match[1]:
                found.append([int(match[1]) + 1, int(match[1])])
            elif not found or int(match[2]) != found[-1][1] + 1:
                found.append([int(match[2]), int(match[2])])
            else:
                found[-1][1] = int(match[2])
        return found

    def lost_steps(self):
        starts = self.starts()
        return sum(max(0, before[1] - after[0] + 1) for before, after in zip(starts, starts[1:]))

    def check(self, undisturbed):
        """The final weights, the metrics and the ledger are those of a run that nothing happened to."""
        compared = subprocess.run([ECHELON_CKPT, "diff", str(self.folder), str(undisturbed)], capture_output=True, text=True)
        if compared.returncode:
            self.fail(f"the final checkpoint is another than the undisturbed run's: {compared.stdout}{compared.stderr}")
        self.check_whole()

    def check_whole(self):
        """Every step was trained and logged once, and every second accounted for."""
        if self.committed() != self.steps:
            self.fail(f"the newest commit is of step {self.committed()}, not {self.steps}")
        with (self.folder / "metrics.jsonl").open() as lines:
            steps = [json.loads(line)["step"] for line in lines]
        if steps != list(range(1, self.steps + 1)):
            self.fail(f"metrics.jsonl does not have every step exactly once: {steps}")
        call(ECHELON_CKPT, "verify", self.folder)
        self.row["lost_steps"] = self.lost_steps()
        self.check_ledger()
        self.check_restarts()

    def check_ledger(self):
        """The seconds of each start add up to its length, and all starts to the time the job had its nodes."""
        path = self.folder / "goodput.json"
        if not path.exists():
            self.fail(f"{path} is missing")
        ledger = json.loads(path.read_text())
        for start in ledger["starts"]:
            length, parts = start["ended"] - start["began"], sum(start["seconds"].values())
            if abs(length - parts) > 0.01 * length + 0.01:
                self.fail(f"the ledger's start {start['restart']} lasted {length:.2f} s, its parts {parts:.2f} s")
        total = ledger["total"]
        held = self.held_seconds(ledger["starts"])
        if abs(total["allocated"] - held) > 0.01 * held + LEAVING_S * len(self.logs):
            self.fail(f"the ledger has {total['allocated']:.2f} s in all, the job had its nodes for {held:.2f} s")
        self.row["ledger_s"], self.row["held_s"], self.row["goodput"] = total["allocated"], round(held, 2), ledger["goodput"]

    def check_restarts(self):
        """Restarts in place are told of, as far as they lived long enough to tell."""
        told = self.restarts()
        noted = sum(line.startswith("restart") for log in self.logs for line in self.notes(log))
        if len(told) > noted or (noted and not told):
            self.fail(f"restarts.jsonl tells of {len(told)} restarts, the script noted {noted}")
        if told:
            self.row["phases"] = {name: round(value, 2) for name, value in told[-1]["seconds"].items()}
            self.row["restarts"] = told

    def notes(self, log):
        return (self.folder / "logs" / log.name.replace("slurm-", "starts-")).with_suffix(".txt").read_text().splitlines()

    def held_seconds(self, ledger):
        """From the script's own notes of when each start began and ended; one that was killed has no end there."""
        held, began = 0.0, None
        known = iter(ledger)
        notes = [line.split() for log in self.logs for line in self.notes(log)]
        for what, *_, when in notes:
            if what in ("start", "restart"):
                if began is not None:
                    held += last["ended"] - began
                began, last = float(when), next(known, None)
            elif what == "end" and began is not None:
                held += float(when) - began
                began = None
        return held


def train_undisturbed(work, steps, *overrides, ranks=8):
    """The same run on local ranks, to which nothing happens. Trained once for each length."""
    folder = work / f"undisturbed-{steps}-{ranks}"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        call(ECHELON, "train", RECIPE, "--ranks", ranks, f"run.dir={folder}", f"train.steps={steps}",
             "checkpoint.max_write_mb_per_s=0", *overrides)
        (folder / "done").touch()
    return folder
