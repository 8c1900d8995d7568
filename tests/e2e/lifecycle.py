"""What ends a run before its last step: a signal to any rank at any time, or the end of the job's time."""
import json
import pathlib
import signal
import time

import product
import summaries

STEPS = 30
LONG = [f"train.steps={STEPS}", "train.global_batch_size=6"]
VALIDATION = ["data.validation.path=data/valid.tok", "train.validate_every_steps=20"]
# All there is: it has to last until a signal is there.
LONG_VALIDATION = "data.validation.batches=0"


def catches(pid, number):
    """Does a process hold a signal back or have a handler of its own for it?"""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    masks = dict(line.split(":\t") for line in lines if line.startswith(("SigBlk", "SigCgt")))
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks.values())


class Tests(product.Case):
    def start_run(self, *more, recipe=None, ranks=2, **variables):
        """Starts a run with its progress shown as on a terminal, so that the test sees what it is doing."""
        words = [f"{name}={value}" for name, value in {"ECHELON_PROGRESS": "bar", **variables}.items()]
        return self.start("env", *words, *self.train_command(recipe or self.recipe(), *LONG, *more, ranks=ranks))

    def rank(self, number, process):
        """The process of one rank, once it is there."""
        return self.wait_for(f"rank {number}", lambda: product.rank_processes(process.pid)[number:])[0]

    def wait_for_text(self, text, process):
        def said():
            if process.poll() is not None:
                self.fail(f"ended with {process.returncode} and never said '{text}': {self.stderr_of_started()}")
            return text in self.stderr_of_started()
        self.wait_for(text, said)

    def expect_stop(self, process, victim):
        """SIGTERM to one rank, then to all until they are gone, as a scheduler that has lost its patience: 85."""
        ranks = product.rank_processes(process.pid)
        product.kill(victim, signal.SIGTERM)
        self.wait_for("the ranks to agree", lambda: process.poll() is not None or "stopp" in self.stderr_of_started())
        while process.poll() is None:
            for pid in ranks:
                product.kill(pid, signal.SIGTERM)
            time.sleep(0.002)
        self.assertEqual(85, process.wait(product.WAIT_S), self.stderr_of_started())

    def committed(self):
        return [int(folder.name[5:14]) for folder in self.checkpoints() if (folder / "COMMIT").exists()]

    def assert_goes_on_as_undisturbed(self, *more):
        self.train("recipe.yaml", *LONG, *more, ranks=2)
        self.train("recipe.yaml", *LONG, *more, "run.dir=whole", ranks=2)
        self.assertEqual(self.losses("whole", STEPS), self.losses("run", STEPS))
        self.assertEqual(self.weights("whole"), self.weights("run"))

    def test_sigterm_to_one_rank_in_initialization(self):
        process = self.start_run()
        victim = self.rank(1, process)
        self.wait_for("the rank to listen", lambda: catches(victim, signal.SIGTERM))
        self.expect_stop(process, victim)
        self.assertRegex(self.stderr_of_started(), r"stopped during initialization, after .* \(")
        self.assertEqual([], self.checkpoints())
        self.assertFalse((self.folder / "run" / "metrics.jsonl").exists())
        self.assert_goes_on_as_undisturbed()

    def test_sigterm_to_one_rank_in_training(self):
        process = self.start_run("train.steps=100000")
        self.wait_for_step(3, process=process)
        victim = self.rank(1, process)
        product.kill(victim, signal.SIGCONT)  # what Slurm sends along says nothing
        self.wait_for_step(len(self.metrics()) + 3, process=process)
        self.expect_stop(process, victim)
        step = len(self.metrics())
        self.assertIn(f"stopping after step {step}: a signal to another rank\n", self.stderr_of_started())
        self.assertEqual([step], self.committed())

    def stop_in_validation(self, state, recipe, *more):
        """SIGTERM to rank 1 while the progress line shows `state`: the validation is as if it had never begun."""
        process = self.start_run(*VALIDATION, *more, recipe=recipe)
        victim = self.rank(1, process)
        self.wait_for_text(state, process)
        product.kill(victim, signal.SIGTERM)
        self.assertEqual(85, process.wait(product.WAIT_S), self.stderr_of_started())
        self.assertIn("stopping after step 20, whose validation is skipped: a signal to another rank\n",
                      self.stderr_of_started())
        self.assertNotIn("validation_loss", self.metrics()[-1])
        self.assertEqual([20], self.committed())
        self.assert_goes_on_as_undisturbed()

    def test_sigterm_to_one_rank_in_validation(self):
        self.prepare(words=600000)
        self.stop_in_validation("validating", self.recipe(**product.ON_TOKENS), LONG_VALIDATION)

    def test_sigterm_to_one_rank_in_generation(self):
        summaries.prepare(self)
        self.stop_in_validation("generating", self.recipe(**{**summaries.T5, "optim.lr": 1e-6, "schedule.min_lr": 0}),
                                "data.validation.max_new_tokens=100000")

    def test_the_end_of_the_job_stops_the_run_in_time(self):
        end = time.time() + 15
        process = self.start_run("train.steps=1000000", SLURM_JOB_END_TIME=int(end))
        self.assertEqual(85, process.wait(product.WAIT_S), self.stderr_of_started())
        step = len(self.metrics())
        self.assertRegex(self.stderr_of_started(),
                         f"stopping after step {step}: the job ends at ..:..:.. UTC, in .* s; one more step .*, a save "
                         ".* and a margin of 10 s do not fit before then\n")
        self.assertEqual([step], self.committed())
        self.assertLess((self.checkpoints()[0] / "COMMIT").stat().st_mtime, end)
        self.assertEqual("stopped", self.ledger()["starts"][0]["end"])
        # What is known from that start does not fit here; 85 would come back for ever.
        again = self.command("env", f"SLURM_JOB_END_TIME={int(time.time() + 9)}",
                             *self.train_command("recipe.yaml", "train.steps=1000000", ranks=2), code=2)
        self.assertRegex(again.err, "the job ends at .*: too soon for one step .* give the job more time")
        self.assertEqual([step], self.committed())

    def test_a_capacity_block_ends_half_an_hour_early(self):
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1800 + 15))
        process = self.start_run("train.steps=1000000", f"cluster.capacity_block_end={end}")
        self.assertEqual(85, process.wait(product.WAIT_S), self.stderr_of_started())
        self.assertIn(": the nodes of the capacity block are taken back at ", self.stderr_of_started())
        self.assertEqual([len(self.metrics())], self.committed())

    def ledger(self):
        """goodput.json, whose seconds add up."""
        ledger = json.loads((self.folder / "run" / "goodput.json").read_text())
        for start in ledger["starts"]:
            self.assertAlmostEqual(start["ended"] - start["began"], sum(start["seconds"].values()), delta=0.01)
        self.assertAlmostEqual(ledger["total"]["allocated"],
                               sum(start["ended"] - start["began"] for start in ledger["starts"]), delta=0.01)
        return ledger

    def test_the_ledger_of_a_killed_and_a_finished_start_is_their_time(self):
        began = time.time()
        process = self.start_run("train.steps=1000000", "checkpoint.every_steps=100")
        self.wait_for_step(160, process=process)
        for pid in [process.pid, *product.rank_processes(process.pid)]:
            product.kill(pid, signal.SIGKILL)
        killed_after = time.time() - began
        process.wait(product.WAIT_S)
        first = self.ledger()
        self.assertEqual("running", first["starts"][0]["end"], "nobody could say more")
        committed = self.committed()[-1]

        began = time.time()
        steps = committed + 40
        result = self.train("recipe.yaml", *LONG, f"train.steps={steps}", ranks=2)
        finished_after = time.time() - began
        ledger = self.ledger()
        killed, finished = ledger["starts"]
        self.assertEqual(("killed", "finished"), (killed["end"], finished["end"]))
        self.assertEqual((0, committed, steps), (killed["first_step"], finished["first_step"], finished["saved_step"]))
        self.assertGreater(killed["last_step"], committed, "nothing was lost: the test shows nothing")
        self.assertGreater(killed["seconds"]["lost"], 0)
        self.assertEqual(0, finished["seconds"]["lost"])
        # What a process does after its last word, and the last refresh before a kill, are not in it.
        for start, took in ((killed, killed_after), (finished, finished_after)):
            self.assertAlmostEqual(took, start["ended"] - start["began"], delta=0.01 * took + 0.5)
        self.assertRegex(result.err, r"goodput [\d.]+ % of [\d.]+ s in 2 starts: start [\d.]+, train [\d.]+, ")


if __name__ == "__main__":
    product.main()
