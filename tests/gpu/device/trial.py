"""Test of the GPU bundle without a device: made from a build, run with nothing but its own environment and torch.

    trial.py BUILD     BUILD: a build folder with GPU code
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(sys.argv.pop()).resolve()
# Steps that need a device also in a trial, and those that a trial leaves out.
NEED_A_DEVICE = {"gpu_kernels", "gpu_reduce", "gpu_ops", "dist_comm_nccl"}
LEFT_OUT = {"sanitizer", "fsdp2_compiled", "kernel_times", "peft"}


class Trial(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls._folder.name)
        cls.bundle = cls.folder / "bundle"
        subprocess.run([sys.executable, HERE / "bundle.py", "--build", BUILD, "--output", cls.bundle, "--no-archive"],
                       check=True)

    @classmethod
    def tearDownClass(cls):
        cls._folder.cleanup()

    def device(self, *arguments, results, code):
        """Runs device.sh with a bare environment; its output."""
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "PYTHON": sys.executable, "LANG": "C.UTF-8"}
        run = subprocess.run([self.bundle / "device.sh", *arguments, "--results", self.folder / results], env=environment,
                             capture_output=True, text=True)
        self.assertEqual(code, run.returncode, run.stdout + run.stderr)
        return run.stdout

    def entries(self, results):
        return json.loads((self.folder / results / "results.json").read_text())["steps"]

    def test_every_step_runs_in_a_trial_and_is_not_repeated(self):
        first = self.device("1", "2", "3", "--trial", results="trial", code=0)
        entries = self.entries("trial")
        for name, entry in entries.items():
            allowed = {"skipped"} if name in LEFT_OUT else {"passed", "skipped"} if name in NEED_A_DEVICE else {"passed"}
            self.assertIn(entry["state"], allowed, f"{name}: {entry}\n{first}")
        self.assertTrue(entries["killed_and_resumed"]["facts"]["bitwise_equal"])
        again = self.device("1", "2", "3", "--trial", results="trial", code=0)
        passed = [name for name, entry in entries.items() if entry["state"] == "passed" and name != "facts"]
        self.assertEqual(len(passed), again.count("passed before"), again)
        page = subprocess.run([sys.executable, HERE / "page.py", "--print", self.folder / "trial/results.json"], check=True,
                              capture_output=True, text=True).stdout
        self.assertRegex(page, r"\| Echelon \| [0-9,]+ \|")
        self.assertRegex(page, r"\| FSDP2 \| [0-9,]+ \|")
        self.assertRegex(page, r"steps passed, with \d+ tests: .*SIGKILL, resume, the same losses; .*\. After SIGKILL the losses are equal")
        self.assertRegex(page, r"\| of \d+ runs of 2 and 4 ranks that share the device, fp32 \| ")

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "has a device")
    def test_without_a_device_it_says_so(self):
        said = self.device("1", "2", "3", results="bare", code=3)
        self.assertRegex(said, r"\nno device: .+")
        states = {name: entry["state"] for name, entry in self.entries("bare").items()}
        self.assertEqual({"facts", "programs"}, {name for name, state in states.items() if state == "passed"})
        self.assertNotIn("failed", states.values())

    def test_a_failure_is_reported_and_costs_no_other_step(self):
        program = self.bundle / "bin/gpu_reduce"
        whole = program.read_bytes()
        program.write_text("#!/bin/sh\necho 'the device fell off'; exit 9\n")
        said = self.device("1", "--trial", "--only", "gpu_reduce", "ceilings", results="broken", code=1)
        program.write_bytes(whole)
        entries = self.entries("broken")
        self.assertEqual("failed", entries["gpu_reduce"]["state"])
        self.assertIn("gpu_reduce ended with 9 and no report: the device fell off", said)
        self.assertEqual("passed", entries["ceilings"]["state"])
        self.assertIn("the device fell off", (self.folder / "broken/log.txt").read_text())

    def test_what_the_time_of_a_stage_cuts_off_goes_on_at_the_next_start(self):
        only, results = ("2", "--trial", "--only", "strategies", "throughput"), "short"
        said = self.device(*only, "--stage-s", "59", results=results, code=4)
        self.assertRegex(said, r"throughput +not begun: \d+ s are left of this stage")
        said = self.device(*only, results=results, code=0)
        self.assertIn("strategies             passed before", said)
        self.assertRegex(said, "throughput +passed")

    def test_an_item_that_fails_or_comes_late_costs_no_other(self):
        """Of strategies: one fails, then the time is over; the next start does only what is missing."""
        script = """
import pathlib, sys, time
sys.path.insert(0, sys.argv[1])
import runs
machine = runs.Machine.__new__(runs.Machine)
machine.trial, machine.known, machine.cut_by_stage, machine.deadline = False, {}, True, time.monotonic() + 60
done = []
def run(item):
    done.append(item)
    if item == 2: raise runs.Failed("no")
    if item == 3 and not machine.known: raise machine.late("late")
    return item * 10
try:
    machine.for_each({"a": 1, "b": 2, "c": 3, "d": 4}, run)
except runs.Unfinished as why:
    machine.known = why.facts
assert machine.known == {"a": 10, "b": {"failed": "no"}}, machine.known
try:
    machine.for_each({"a": 1, "b": 2, "c": 3, "d": 4}, run)
except runs.Failed as why:
    assert str(why).startswith("1 of 4 failed: b"), why
    assert why.facts == {"a": 10, "b": {"failed": "no"}, "c": 30, "d": 40}, why.facts
assert done == [1, 2, 3, 2, 3, 4], done
"""
        subprocess.run([sys.executable, "-c", script, HERE], check=True)

    def test_results_of_another_kind_of_run_are_put_aside(self):
        self.device("1", "--trial", "--only", "ceilings", results="mixed", code=0)
        said = self.device("1", "--only", "ceilings", results="mixed", code=3)
        self.assertRegex(said, r"are now in results-before-\d+.json")
        self.assertEqual("skipped", self.entries("mixed")["ceilings"]["state"])


if __name__ == "__main__":
    unittest.main()
