"""Runs whose ranks are killed in the middle of saves, started again and again until they end: nothing that was committed
is lost or damaged, and the end is that of a run that nobody disturbed, bit for bit.

By hand, for as long as one likes: ECHELON_BIN=... ECHELON_CKPT_BIN=... python3 tests/e2e/kill_loop.py --iterations 500
"""
import argparse
import collections
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import product

STEPS = 40
KEPT = 3
# As many saves as there can be, so that most moments are in the middle of one.
RECIPE = {"train.steps": STEPS, "checkpoint.every_steps": 1, "checkpoint.keep_last": KEPT, "train.global_batch_size": 12,
          "schedule.warmup_steps": 10}
EVERY_RANK = ("folder", "reserved", "staged", "window", "index", "flushed", "named", "durable")
RANK_0 = ("publish", "publish", "publish", "committed", "aside")  # publish: attachments, MANIFEST.json, COMMIT
ANYWHERE = "anywhere"


class Run:
    """One run folder, from its first start to its last step."""

    def __init__(self, case, name, ranks, overrides):
        self.case, self.name, self.ranks = case, name, ranks
        self.overrides = [*overrides, f"run.dir={name}"]
        self.promised, self.newest, self.starts = set(), 0, 0

    def start(self, kill_point=""):
        """Starts the job; returns the process and the file with what it says."""
        self.starts += 1
        said = self.case.folder / f"{self.name}-{self.starts}.txt"
        command = self.case.train_command("recipe.yaml", *self.overrides, ranks=self.ranks)
        with open(said, "w") as file:
            process = subprocess.Popen([str(a) for a in command], cwd=self.case.folder, text=True, stdout=file, stderr=file,
                                       stdin=subprocess.DEVNULL, start_new_session=True,
                                       env=product.environment(ECHELON_KILL_POINT=kill_point))
        self.case.addCleanup(self.case.end, process)
        return process, said

    def wait(self, process, said):
        """The exit code. A job with a dead rank ends by itself, or it is a fault."""
        try:
            code = process.wait(product.WAIT_S if process.poll() is None else 0)
        except subprocess.TimeoutExpired:
            self.case.fail(f"the job does not end: {said.read_text()}")
        return code

    def look(self, said):
        """Compares the folder with what the job has said. Every commit must be whole."""
        text = said.read_text()
        if self.newest:
            self.case.assertIn(f"resumed from step {self.newest}\n", text)
        self.promised |= {int(step) for step in re.findall(r"saved step (\d+) ", text)}
        found = json.loads(self.case.command(product.CKPT, "ls", self.name, "--json").out)
        for checkpoint in found:
            self.case.assertIn(checkpoint["state"], ("committed", "uncommitted"), checkpoint)
            if checkpoint["state"] == "committed":
                self.case.command(product.CKPT, "verify", "--deep", checkpoint["folder"])
        steps = {checkpoint["step"] for checkpoint in found if checkpoint["state"] == "committed"}
        newest = sorted(steps | self.promised)[-KEPT:]
        self.case.assertLessEqual(self.promised & set(newest), steps, f"a commit is gone; {said}:\n{text}")
        self.newest = max(steps, default=0)

    def result(self):
        """What the last checkpoint holds: checksums of all tensors, and the trainer's state."""
        shown = json.loads(self.case.command(product.CKPT, "inspect", "--json", self.name).out)
        self.case.assertEqual(STEPS, shown["step"])
        tensors = {tensor["name"]: {key: value for key, value in tensor.items() if key not in ("pieces", "bytes")}
                   for tensor in shown["tensors"]}
        return tensors, shown["trainer_state"]


class Loop:
    """Kills until it has killed enough."""

    def __init__(self, case, ranks, seed, *overrides):
        self.case, self.ranks, self.overrides = case, ranks, overrides
        self.random = random.Random(seed)
        self.kills = collections.Counter()
        self.runs = 0
        case.recipe(**RECIPE)
        whole = Run(case, f"whole-{ranks}", ranks, overrides)
        process, said = whole.start()
        case.assertEqual(0, whole.wait(process, said), said.read_text())
        whole.look(said)
        self.expected = whole.result()
        self.run = self.fresh()

    def fresh(self):
        self.runs += 1
        return Run(self.case, f"run-{self.ranks}-{self.runs}", self.ranks, self.overrides)

    def finished(self):
        """The run came to its end: it must be the end of the run that nobody disturbed."""
        self.case.assertEqual(self.expected, self.run.result())
        shutil.rmtree(self.case.folder / self.run.name)
        self.run = self.fresh()

    def kill(self, point):
        """One start, in which a rank dies at `point`, unless the run ends before it comes there."""
        victim = 0 if point in RANK_0 else self.random.randrange(self.ranks)
        nth = self.random.randint(1, 9 if point == "publish" else 3)
        process, said = self.run.start("" if point == ANYWHERE else f"{point}:{victim}:{nth}")
        if point == ANYWHERE:
            self.kill_anywhere(process, said, victim)
        code = self.run.wait(process, said)
        self.run.look(said)
        if code == 0:
            self.finished()
        else:
            self.case.assertIn("signal 9", said.read_text())
            self.kills[point] += 1

    def kill_anywhere(self, process, said, victim):
        """At any moment after the first save began."""
        self.case.wait_for("a save", lambda: process.poll() is not None or "step " in said.read_text())
        time.sleep(self.random.uniform(0, 0.5))
        pids = product.rank_processes(process.pid)
        if len(pids) == self.ranks:
            product.kill(pids[victim], signal.SIGKILL)

    def end(self):
        """Lets the run come to its end."""
        process, said = self.run.start()
        self.case.assertEqual(0, self.run.wait(process, said), said.read_text())
        self.run.look(said)
        self.finished()


class Tests(product.Case):
    def kill_at(self, points, least, *loop):
        loop = Loop(self, *loop)
        for point in points:
            loop.kill(point)
        loop.end()
        self.assertGreaterEqual(sum(loop.kills.values()), least, loop.kills)

    def test_killed_at_every_named_point_of_a_save(self):
        self.kill_at(EVERY_RANK + RANK_0, 10, 2, 1)

    def test_killed_at_every_named_point_while_training_waits(self):
        self.kill_at(EVERY_RANK + RANK_0, 10, 2, 2, "checkpoint.async=false")

    def test_killed_at_any_moment(self):
        self.kill_at([ANYWHERE] * 10, 5, 3, 3)


class Long(product.Case):
    """As many kills as wanted, on 2, 3 and 4 ranks."""
    iterations, seed = 0, 0

    def runTest(self):
        points = (*EVERY_RANK, *RANK_0, *[ANYWHERE] * 6)
        kills, began = collections.Counter(), time.monotonic()
        for world in (2, 3, 4):
            loop = Loop(self, world, self.seed + world)
            attempts = 0
            while sum(loop.kills.values()) < self.iterations // 3 + (world == 2) * (self.iterations % 3):
                loop.kill(points[attempts % len(points)])
                attempts += 1
            loop.end()
            kills += loop.kills
            print(f"{world} ranks: {dict(loop.kills)}, {loop.runs - 1} runs ended with the right bits, "
                  f"{time.monotonic() - began:.0f} s", flush=True)
        print(f"{sum(kills.values())} kills: {dict(kills)}", flush=True)


def main():
    if len(sys.argv) == 2:
        return product.main()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, required=True, help="kills")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    Long.iterations, Long.seed = options.iterations, options.seed
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite([Long()])).wasSuccessful())


if __name__ == "__main__":
    main()
