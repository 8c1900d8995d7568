"""Runs that cannot start or go on: run folders, ranks, other models and data, resume."""
import signal
import time

import product

# Starts that fail before their first step: exit code, overrides.
EARLY = [
    (2, ["optim.lr=fast"]), (2, ["no.such=1"]), (2, ["checkpoint.resume=never"]), (2, ["train.global_batch_size=13", "train.micro_batch_size=2"]),
    (2, ["run.seed=1", "schedule.warmup_steps=900"]),
    (4, ["data.kind=tokens", "data.path=none.tok"]), (4, ["data.seq_len=8"]), (4, ["run.seed=8"]),
    (4, ["data.kind=tokens", "data.path=recipe.yaml"]),
    (5, ["model.hidden_size=80"]), (5, ["model.layers=2"]), (5, ["model.rope_theta=50000"]), (5, ["optim.kind=sgd"]),
    (2, ["cluster.capacity_block_end=2020-01-01T00:00:00Z"]),
]
# Cases of the golden table: what is refused for a finished run, with its exit code.
KEPT = {
    "checkpoint_of_a_wider_model": (5, "model.hidden_size=80"),
    "checkpoint_of_a_deeper_model": (5, "model.layers=2"),
    "checkpoint_of_a_shallower_model": (5, "model.layers=4"),
    "resume_never_and_there_is_one": (2, "checkpoint.resume=never"),
    "other_data_on_resume": (4, "data.seq_len=8"),
    "other_seed_on_resume": (4, "run.seed=8"),
}
# Cases of the golden table: exit code, ranks, overrides.
REFUSED = {
    "batch_does_not_divide_over_the_ranks": (2, 3, "train.global_batch_size=16"),
    "batch_smaller_than_one_pass": (2, 4, "train.global_batch_size=4", "train.micro_batch_size=2"),
    "run_folder_is_a_file": (2, 1, "run.dir=notes"),
    "run_folder_below_a_file": (2, 1, "run.dir=notes/run"),
    "run_folder_not_writable": (2, 1, "run.dir=/proc/echelon-run"),
    "run_folder_not_writable_on_several_ranks": (2, 2, "run.dir=/proc/echelon-run"),
    "resume_must_and_there_is_none": (2, 1, "checkpoint.resume=must"),
}


class Tests(product.Case):
    def trained(self, **overrides):
        """A finished run of three steps, and the bytes of all its files."""
        self.train(self.recipe(**{"train.steps": 3, **overrides}))
        return self.contents()

    def contents(self):
        """Every file of the run but the lock, which names its last owner."""
        run = self.folder / "run"
        return {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"}

    def test_a_finished_run_is_kept(self):
        """To the byte, whatever is refused."""
        before = self.trained()
        for case, (code, override) in KEPT.items():
            with self.subTest(case):
                self.expect(code, *self.train_command("recipe.yaml", override, "train.steps=6"), case=case)
                self.assertEqual(before, self.contents())

    def test_what_cannot_start_is_refused(self):
        self.recipe()
        (self.folder / "notes").write_text("mine")
        for case, (code, ranks, *overrides) in REFUSED.items():
            with self.subTest(case):
                self.expect(code, *self.train_command("recipe.yaml", *overrides, ranks=ranks), case=case)
        self.assertEqual("mine", (self.folder / "notes").read_text())

    def test_a_start_that_fails_leaves_no_folder(self):
        self.recipe(**{"data.kind": "tokens", "data.path": "none.tok", "run.dir": "runs/name"})
        for ranks in (1, 2):
            self.assertNotIn("starting", self.train("recipe.yaml", ranks=ranks, code=4).err)
            self.assertFalse((self.folder / "runs").exists(), list((self.folder / "runs").rglob("*")))
        (self.folder / "runs" / "name").mkdir(parents=True)
        self.train("recipe.yaml", "data.kind=synthetic_tokens", "cluster.capacity_block_end=2020-01-01T00:00:00Z", code=2)
        self.assertTrue((self.folder / "runs" / "name" / "logs" / "rank-0.log").exists())

    def leave_no_trace(self, ranks):
        """Whatever fails before its first step, the run in run/ stays as it is, to the byte."""
        before = self.contents()
        self.assertIn(self.folder / "run" / "logs" / "rank-0.log", before)
        for code, overrides in EARLY:
            self.train("recipe.yaml", "train.steps=60", *overrides, ranks=ranks, code=code)
            self.assertEqual(before, self.contents(), overrides)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for wait_s in (0, 0.1, 0.2, 0.3):
                process = self.start(*self.train_command("recipe.yaml", "train.steps=60", "data.path=none.tok",
                                                         "data.kind=tokens", ranks=ranks))
                time.sleep(wait_s)
                process.send_signal(number)
                process.wait(product.WAIT_S)
                self.end(process)
                self.assertEqual(before, self.contents(), (number, wait_s))

    def test_early_failures_leave_no_trace_in_a_finished_run(self):
        self.trained(**{"checkpoint.every_steps": 2})
        before = self.contents()
        for ranks in (1, 2):  # with two, there would be another log
            self.train("recipe.yaml", ranks=ranks)
            self.assertEqual(before, self.contents(), "of a run that is complete")
            self.leave_no_trace(ranks)

    def test_early_failures_leave_no_trace_in_an_interrupted_run(self):
        self.recipe(**{"checkpoint.every_steps": 2, "train.steps": 1000000, **product.CONSTANT})
        for ranks in (1, 2):
            process = self.start(*self.train_command("recipe.yaml", ranks=ranks))
            self.wait_for_step(7, process=process)
            self.end(process)
            self.leave_no_trace(ranks)
            (self.folder / "run" / "goodput.json").write_text("{")  # nor is a damaged account replaced
            before = self.contents()
            self.train("recipe.yaml", "checkpoint.resume=never", ranks=ranks, code=2)
            self.assertEqual(before, self.contents())
            product.shutil.rmtree(self.folder / "run")

    def test_a_start_that_goes_on_is_recorded_from_its_beginning(self):
        self.trained()
        log = self.folder / "run" / "logs" / "rank-0.log"
        before = log.read_text()
        self.train("recipe.yaml", "train.steps=6", ranks=2)
        account = product.json.loads((self.folder / "run" / "goodput.json").read_text())
        self.assertEqual([(1, "finished"), (2, "finished")], [(start["ranks"], start["end"]) for start in account["starts"]])
        self.assertGreater(account["starts"][1]["seconds"]["start"], 0)
        self.assertRegex(log.read_text().removeprefix(before),
                         r"^\S+ D \[rank 0/2 \S+\] starting: opening the data\n(.|\n)*resumed from step 3\n")

    def test_run_folder_in_use(self):
        endless = ["train.steps=1000000", *product.ALWAYS_CONSTANT]
        process = self.start(*self.train_command(self.recipe(), *endless))
        self.wait_for_step(2, process=process)
        result = self.command(*self.train_command("recipe.yaml", *endless), code=2)
        self.assertIn(f"is in use by process {process.pid} on {product.socket.gethostname()}; waiting 5 s", result.err)
        self.assertEqual(result.err.splitlines(True)[-1], f"echelon: run folder (run.dir) 'run': in "
                         f"use by process {process.pid} on {product.socket.gethostname()}; wait for it, or give this "
                         "run another run.dir\n")
        self.stop(process)
        self.metrics()

    def test_checkpoint_of_another_model_on_several_ranks(self):
        self.trained()
        self.expect(5, *self.train_command("recipe.yaml", "model.tie_embeddings=true", "train.steps=6", ranks=3))

    def test_checkpoint_of_a_model_of_the_same_shapes(self):
        before = self.trained()
        for override, named in (("model.rope_theta=50000", "model.rope_theta 10000.0 -> 50000.0"),
                                ("model.norm_eps=1e-6", "model.norm_eps 1.0e-05 -> 1.0e-06"),
                                ("model.heads=4", "model.heads 5 -> 4")):
            result = self.train("recipe.yaml", override, "train.steps=6", code=5)
            self.assertIn(f"is of a different model (checkpoint -> this recipe): {named}; ", result.err)
        self.assertEqual(before, self.contents())

    def test_loss_not_finite(self):
        before = self.trained(**product.CONSTANT)
        result = self.train("recipe.yaml", "train.steps=60", "optim.lr=100", "model.init_std=10",
                            "train.clip_grad_norm=0", "run.dir=wild", code=6)
        # At which step is a matter of the processor's arithmetic.
        self.assertRegex(result.err, r"(?m)^echelon: step \d+: (loss|gradient norm) is not finite; the "
                                     r"weights were not touched by this step\. Lower optim\.lr, .*$")
        self.assertEqual(before, self.contents())


if __name__ == "__main__":
    product.main()
