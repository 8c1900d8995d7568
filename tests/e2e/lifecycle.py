"""What ends a run before its last step: a signal to any rank at any time, or the end of the job's time."""
import pathlib
import signal

import product

STEPS = 30
LONG = [f"train.steps={STEPS}", "train.global_batch_size=6"]
VALIDATION = ["data.validation.kind=synthetic_tokens", "train.validate_every_steps=20"]


def catches(pid, number):
    """Does a process hold a signal back or have a handler of its own for it?"""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    masks = dict(line.split(":\t") for line in lines if line.startswith(("SigBlk", "SigCgt")))
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks.values())


class Tests(product.Case):
    def start_run(self, *more, ranks=2, **variables):
        """Starts a run with its progress shown as on a terminal, so that the test sees what it is doing."""
        words = [f"{name}={value}" for name, value in {"ECHELON_PROGRESS": "bar", **variables}.items()]
        return self.start("env", *words, *self.train_command(self.recipe(), *LONG, *more, ranks=ranks))

    def rank(self, number, process):
        """The process of one rank, once it is there."""
        return self.wait_for(f"rank {number}", lambda: product.rank_processes(process.pid)[number:])[0]

    def wait_for_text(self, text, process):
        def said():
            if process.poll() is not None:
                self.fail(f"ended with {process.returncode} and never said '{text}': {self.stderr_of_started()}")
            return text in self.stderr_of_started()
        self.wait_for(text, said)

    def committed(self):
        return [int(folder.name[5:14]) for folder in self.checkpoints() if (folder / "COMMIT").exists()]

    def assert_goes_on_as_undisturbed(self, *more):
        self.train("recipe.yaml", *LONG, *more, ranks=2)
        self.train("recipe.yaml", *LONG, *more, "run.dir=whole", ranks=2)
        self.assertEqual(self.losses("whole", STEPS), self.losses("run", STEPS))
        self.assertEqual(self.weights("whole"), self.weights("run"))

    def test_sigterm_to_one_rank_in_initialisation(self):
        process = self.start_run()
        victim = self.rank(1, process)
        self.wait_for("the rank to listen", lambda: catches(victim, signal.SIGTERM))
        product.kill(victim, signal.SIGTERM)
        self.assertEqual(85, process.wait(product.WAIT_S), self.stderr_of_started())
        self.assertRegex(self.stderr_of_started(), "stopped in initialisation, after .*, by a signal to another rank: ")
        self.assertEqual([], self.checkpoints())
        self.assertFalse((self.folder / "run" / "metrics.jsonl").exists())
        self.assert_goes_on_as_undisturbed()

    def test_sigterm_to_one_rank_in_training(self):
        process = self.start_run("train.steps=100000")
        self.wait_for_step(3, process=process)
        product.kill(self.rank(1, process), signal.SIGTERM)
        self.assertEqual(85, process.wait(product.WAIT_S), self.stderr_of_started())
        step = len(self.metrics())
        self.assertIn(f"stopping after step {step}: a signal to another rank\n", self.stderr_of_started())
        self.assertEqual([step], self.committed())

    def test_sigterm_to_one_rank_in_validation(self):
        process = self.start_run(*VALIDATION, "data.validation.batches=100000")
        self.wait_for_text("validating", process)
        product.kill(self.rank(1, process), signal.SIGTERM)
        self.assertEqual(85, process.wait(product.WAIT_S), self.stderr_of_started())
        self.assertIn("stopping after step 20, whose validation is left out: a signal to another rank\n",
                      self.stderr_of_started())
        self.assertNotIn("validation_loss", self.metrics()[-1])
        self.assertEqual([20], self.committed())
        self.assert_goes_on_as_undisturbed(*VALIDATION, "data.validation.batches=1")


if __name__ == "__main__":
    product.main()
