"""Runs that cannot start or go on: run folders, ranks, other models and data, resume."""
import product


class Tests(product.Case):
    def refuse(self, code, *overrides, ranks=1):
        self.expect(code, *self.train_command("recipe.yaml", *overrides, ranks=ranks))

    def trained(self, **overrides):
        """A finished run of three steps, and the bytes of all its files."""
        self.train(self.recipe(**{"train.steps": 3, **overrides}))
        return self.contents()

    def contents(self):
        run = self.folder / "run"
        return {path: path.read_bytes() for path in run.rglob("*")
                if path.is_file() and "logs" not in path.parts and path.name not in (".lock", "goodput.json")}

    def refuse_and_keep(self, code, *overrides):
        """Refused, and not one byte of the run is touched."""
        before = self.trained()
        self.refuse(code, *overrides)
        self.assertEqual(before, self.contents())

    def test_batch_does_not_divide_over_the_ranks(self):
        self.recipe(**{"train.global_batch_size": 16})
        self.refuse(2, ranks=3)

    def test_batch_smaller_than_one_pass(self):
        self.recipe(**{"train.global_batch_size": 4, "train.micro_batch_size": 2})
        self.refuse(2, ranks=4)

    def test_a_start_that_fails_leaves_no_folder(self):
        self.recipe(**{"data.kind": "tokens", "data.path": "none.tok", "run.dir": "runs/name"})
        for ranks in (1, 2):
            self.train("recipe.yaml", ranks=ranks, code=4)
            self.assertFalse((self.folder / "runs").exists(), list((self.folder / "runs").rglob("*")))
        (self.folder / "runs" / "name").mkdir(parents=True)
        self.train("recipe.yaml", code=4)
        self.assertTrue((self.folder / "runs" / "name" / "logs" / "rank-0.log").exists())

    def test_run_folder_is_a_file(self):
        self.recipe()
        (self.folder / "run").write_text("mine")
        self.refuse(2)
        self.assertEqual("mine", (self.folder / "run").read_text())

    def test_run_folder_below_a_file(self):
        self.recipe()
        (self.folder / "notes").write_text("mine")
        self.refuse(2, "run.dir=notes/run")

    def test_run_folder_not_writable(self):
        self.recipe()
        self.refuse(2, "run.dir=/proc/echelon-run")

    def test_run_folder_not_writable_on_several_ranks(self):
        self.recipe()
        self.refuse(2, "run.dir=/proc/echelon-run", ranks=2)

    def test_run_folder_in_use(self):
        endless = ["train.steps=1000000", "schedule.kind=constant"]
        process = self.start(*self.train_command(self.recipe(), *endless))
        self.wait_for_step(2, process=process)
        result = self.command(*self.train_command("recipe.yaml", *endless), code=2)
        self.assertIn(f"is in use by process {process.pid} on {product.socket.gethostname()}; waiting 5 s", result.err)
        self.assertEqual(result.err.splitlines(True)[-1], f"echelon: rank 0/1 {product.socket.gethostname()}: run folder (run.dir) 'run': in "
                         f"use by process {process.pid} on {product.socket.gethostname()}; wait for it, or give this "
                         "run another run.dir\n")
        process.terminate()
        self.assertEqual(85, process.wait(product.WAIT_S))
        self.metrics()

    def test_checkpoint_of_a_wider_model(self):
        self.refuse_and_keep(5, "model.hidden_size=80", "train.steps=6")

    def test_checkpoint_of_a_deeper_model(self):
        self.refuse_and_keep(5, "model.layers=2", "train.steps=6")

    def test_checkpoint_of_a_shallower_model(self):
        self.refuse_and_keep(5, "model.layers=4", "train.steps=6")

    def test_checkpoint_of_another_model_on_several_ranks(self):
        self.trained()
        self.refuse(5, "model.tie_embeddings=true", "train.steps=6", ranks=3)

    def test_checkpoint_of_a_model_of_the_same_shapes(self):
        before = self.trained()
        for override, named in (("model.rope_theta=50000", "model.rope_theta 10000.0 -> 50000.0"),
                                ("model.norm_eps=1e-6", "model.norm_eps 1.0e-05 -> 1.0e-06"),
                                ("model.heads=4", "model.heads 5 -> 4")):
            result = self.train("recipe.yaml", override, "train.steps=6", code=5)
            self.assertIn(f"is of a different model (checkpoint -> this recipe): {named}; ", result.err)
        self.assertEqual(before, self.contents())

    def test_resume_never_and_there_is_one(self):
        self.refuse_and_keep(2, "checkpoint.resume=never", "train.steps=6")

    def test_resume_must_and_there_is_none(self):
        self.recipe()
        self.refuse(2, "checkpoint.resume=must")

    def test_other_data_on_resume(self):
        self.refuse_and_keep(4, "data.seq_len=8", "train.steps=6")

    def test_other_seed_on_resume(self):
        self.refuse_and_keep(4, "run.seed=8", "train.steps=6")

    def test_loss_not_finite(self):
        before = self.trained(**{"schedule.kind": "constant"})
        result = self.train("recipe.yaml", "train.steps=60", "optim.lr=100", "model.init_std=10",
                            "train.clip_grad_norm=0", "run.dir=wild", code=6)
        # At which step is a matter of the processor's arithmetic.
        self.assertRegex(result.err, r"(?m)^echelon: rank 0/1 \S+: step \d+: (loss|gradient norm) is not finite; the "
                                     r"weights were not touched by this step\. Lower optim\.lr, .*$")
        self.assertEqual(before, self.contents())


if __name__ == "__main__":
    product.main()
