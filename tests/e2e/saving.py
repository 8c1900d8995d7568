"""Saving while training goes on: what is kept, what is left out, what a failing save does, and what a run starts from."""
import json
import os
import shutil
import subprocess

import product

# A rank of two writes 0.4 MB of TINY's state: slowly enough here for several steps to pass meanwhile.
SLOWLY = "checkpoint.max_write_mb_per_s=0.15"

# Each rank gives its part up after a second, the second save in a row ends the run.
TOO_LONG = ["checkpoint.every_steps=2", "checkpoint.async=false", "train.steps=6", "checkpoint.max_write_mb_per_s=0.02",
            "checkpoint.timeout_s=1", "checkpoint.max_failures=2"]

ONE_STEP = ["train.steps=1", *product.ALWAYS_CONSTANT]


class Tests(product.Case):
    def steps_kept(self, run="run"):
        return [int(folder.name[5:14]) for folder in self.checkpoints(run)]

    def test_saves_beside_training_hold_the_same_as_saves_that_stop_it(self):
        for run, mode in ("beside", "true"), ("stopping", "false"):
            self.train(self.recipe(), "checkpoint.every_steps=5", f"checkpoint.async={mode}", f"run.dir={run}", ranks=2)
        self.assertEqual([5, 10, 15, 20], self.steps_kept("beside"))
        self.assertEqual([5, 10, 15, 20], self.steps_kept("stopping"))
        for one, other in zip(self.checkpoints("beside"), self.checkpoints("stopping")):
            self.command(product.CKPT, "diff", one, other)
        self.assertEqual(self.losses("beside"), self.losses("stopping"))

    def test_after_a_fall_back_sound_checkpoints_stay_until_there_are_new_ones(self):
        often = ["checkpoint.every_steps=1", "checkpoint.async=false", "checkpoint.keep_last=2", "train.steps=20"]
        self.train(self.recipe(), "checkpoint.every_steps=5", "train.steps=15", "checkpoint.keep_last=3")
        for damaged in self.checkpoints()[1:]:
            self.flip(next(damaged.glob("shard-*")), -1)
        for saved, (point, left) in enumerate([("committed:0:1", [5, 6, 10, 15]), ("committed:0:3", [7, 8, 9, 10, 15])]):
            result = self.command(*self.train_command(self.recipe(), *often, ranks=2), code=7, ECHELON_KILL_POINT=point)
            self.assertIn(f"resumed from step {5 + saved}", result.out + result.err)
            self.assertEqual(left, self.steps_kept(), point)
        self.assertIn("resumed from step 9", self.train(self.recipe(), *often, ranks=2).err)
        self.assertEqual([19, 20], self.steps_kept())

    def test_of_two_jobs_in_a_folder_without_locks_the_newer_one_owns_it(self):
        job = ["env", f"LD_PRELOAD={os.environ['ECHELON_FAILING_CALLS']}", "ECHELON_FAIL=flock",
               *self.train_command(self.recipe(), "train.steps=1000000", "checkpoint.every_steps=50", "checkpoint.max_failures=2")]
        # Slowly, so that the newer one's first clean-up takes away the folder of a save under way.
        first = self.start(*job, "checkpoint.max_write_mb_per_s=0.5")
        self.wait_for("a checkpoint", lambda: [*(self.folder / "run").glob("checkpoints/*/COMMIT")])
        second = self.start(*job)
        self.assertEqual(5, first.wait(product.WAIT_S))
        self.assertIn("has a new owner", self.stderr_of_started(1))
        self.stop(second)
        for folder in self.checkpoints():
            self.command(product.CKPT, "verify", folder)

    def test_a_slow_disk_loses_saves_but_no_steps(self):
        result = self.train(self.recipe(), "checkpoint.every_steps=1", SLOWLY, "train.steps=6", ranks=2)
        self.assertIn("is not saved: the previous checkpoint is still being written", result.err)
        self.assertEqual(6, len(self.metrics()))
        self.assertEqual(6, self.steps_kept()[-1], "the last step is waited for")
        for folder in self.checkpoints():
            self.command(product.CKPT, "verify", folder)

    def train_with_calls(self, calls, *arguments, code):
        """Two ranks, whose file system calls do what `calls` says for each of them."""
        script = ('case $OMPI_COMM_WORLD_RANK in '
                  + " ".join(f'{rank}) export LD_PRELOAD="$ECHELON_FAILING_CALLS" {what} ;;' for rank, what in calls.items())
                  + ' esac; exec "$ECHELON_BIN" train "$@"')
        return self.command(*product.MPIRUN, "-n", 2, "sh", "-c", script, "rank", *arguments, code=code)

    def test_rank_0_learns_of_a_failure_that_the_disk_does_not_record(self):
        # Rank 1 can give no file its name: neither its shard nor its note for rank 0, which waits for one of them.
        result = self.train_with_calls({1: "ECHELON_FAIL=rename"}, self.recipe(), "checkpoint.every_steps=2", "train.steps=8",
                                       code=5)
        self.assertEqual([], self.steps_kept())
        self.assertEqual(8, len(self.metrics()), "training went on past the saves that failed")
        self.assertRegex(result.err, r"step 2 was not saved \(older checkpoints are untouched\): cannot save rank 1's shard on")
        self.assertNotIn("still being written", result.err)

    def test_a_save_that_takes_too_long_fails_and_too_many_end_the_run(self):
        result = self.train(self.recipe(), *TOO_LONG, ranks=2, code=5)
        self.assertIn("checkpoint.timeout_s", result.err)
        self.assertIn("saves in a row (checkpoint.max_failures)", result.err)
        self.assertEqual([], self.steps_kept())

    def test_a_failure_reported_while_the_folder_is_removed_leaves_nothing(self):
        # Rank 1 leaves its note when rank 0 has emptied the folder, and before the folder itself is gone.
        self.train_with_calls({0: "ECHELON_DELAY=rmdir", 1: "ECHELON_DELAY=unlink"}, self.recipe(), *TOO_LONG, code=5)
        self.assertEqual([], self.steps_kept())

    def test_who_reads_a_checkpoint_leaves_a_lease(self):
        self.train(self.recipe(), "train.steps=4", ranks=2)
        step, = self.checkpoints()
        for command in (["verify", step], ["consolidate", step, "--to", "hdf5", "--output", "one.h5"],
                        ["reshard", step, "--world", "3", "--output", "resharded"], ["diff", step, step],
                        ["view", step, "--output", "view.h5"], ["salvage", step]):
            with self.subTest(command[0]):
                late = {**os.environ, "LD_PRELOAD": os.environ["ECHELON_FAILING_CALLS"], "ECHELON_DELAY": "unlink"}
                job = subprocess.Popen([product.CKPT, *map(str, command)], cwd=self.folder, env=late, stdout=subprocess.DEVNULL)
                self.wait_for("a lease", lambda: [*step.parent.glob(f".lease-{step.name}-*")] or job.poll() is not None)
                self.assertIsNone(job.poll(), "read without a lease")
                self.assertEqual(0, job.wait(product.WAIT_S))
                self.assertEqual([], [*step.parent.glob(".lease-*")])

    def test_by_the_clock(self):
        self.train(self.recipe(), "checkpoint.every_minutes=0.005", "train.steps=60", ranks=2)
        kept = self.steps_kept()
        self.assertGreater(len(kept), 1)
        self.assertEqual(60, kept[-1])
        self.train("recipe.yaml", "checkpoint.auto_interval=true", "run.dir=auto", ranks=2)
        self.assertEqual([20], self.steps_kept("auto"), "the first one by measure is due after a minute")

    def test_the_best_and_every_so_many_are_kept(self):
        self.prepare()
        self.recipe(**{**product.ON_TOKENS, "data.validation.path": "data/valid.tok", "data.validation.batches": 1})
        self.train("recipe.yaml", "train.steps=24", "train.validate_every_steps=2", "checkpoint.every_steps=3",
                   "checkpoint.keep_last=2", "checkpoint.keep_every_steps=12", "checkpoint.keep_best=true",
                   "optim.lr=0.3", "train.clip_grad_norm=0", ranks=2)
        best = json.loads((self.folder / "run/best_validation.json").read_text())["step"]
        kept = self.steps_kept()
        self.assertIn(best, kept)
        self.assertIn(12, kept)
        self.assertEqual(24, kept[-1])
        self.assertLessEqual(len(kept), 5)

    def test_a_new_run_starts_from_the_weights_of_another(self):
        self.train(self.recipe(), ranks=2)
        result = self.train("recipe.yaml", "checkpoint.init_from=run", "run.dir=tuned", "optim.kind=sgd", "precision.param=bf16",
                            "optim.lr=1e-9", *ONE_STEP, ranks=3)
        self.assertIn("weights of 'run'; step 0", result.err)
        trained = float(self.losses("run")[-1])
        fresh = float(self.losses("run")[0])
        self.assertLess(abs(float(self.losses("tuned", 1)[0]) - trained), abs(trained - fresh))
        self.command(product.CKPT, "export", "run", "--output", "exported")
        self.command(product.CKPT, "import", "exported", "--output", "imported")
        again = self.train("recipe.yaml", "checkpoint.init_from=imported", "run.dir=back", "optim.lr=1e-12",
                           "optim.weight_decay=0", *ONE_STEP)
        self.assertIn("weights of 'imported'", again.err)
        self.command(product.CKPT, "export", "back", "--output", "exported-again")

    def test_weights_of_another_model_are_refused(self):
        self.train(self.recipe(), *ONE_STEP)
        result = self.train("recipe.yaml", "checkpoint.init_from=run", "run.dir=other", "model.hidden_size=80",
                            "model.heads=10", code=5)
        said = ("checkpoint.init_from 'run': it is of a different model (checkpoint -> this recipe: model.hidden_size 40 -> 80, "
                "model.heads 5 -> 10); use the model it was made with, or set checkpoint.init_partial: true to take the tensors that fit")
        self.assertIn(said, result.err)
        self.assertNotIn("starting", result.err)
        self.assertFalse((self.folder / "other").exists())
        told = self.command(product.ECHELON, "doctor", "recipe", "recipe.yaml", "checkpoint.init_from=run", "run.dir=other",
                            "model.hidden_size=80", "model.heads=10", code=3)
        self.assertIn(said, told.out)
        result = self.train("recipe.yaml", "checkpoint.init_from=run", "run.dir=other", "model.rope_theta=50000", code=5)
        self.assertIn("model.rope_theta 10000.0 -> 50000.0); ", result.err)
        result = self.train("recipe.yaml", "checkpoint.init_from=run", "run.dir=other", "model.layers=2",
                            "model.tie_embeddings=true", "checkpoint.init_partial=true", *ONE_STEP)
        self.assertRegex(result.err, r"warning: checkpoint\.init_from 'run': it is of a different model \(.*model\.layers 3 -> 2, "
                                     r"model\.tie_embeddings false -> true\): 10 of its tensors .*lm_head\.weight.*; 20 are taken")

    def test_a_finished_run_makes_whole_tensors(self):
        self.train(self.recipe(), "checkpoint.consolidate=safetensors", ranks=2)
        made = self.folder / "run/consolidated-step-000000020/model.safetensors"
        self.assertEqual(self.weights("run"), made.read_bytes())
        self.train("recipe.yaml", "checkpoint.consolidate=hdf5", ranks=2)  # finished already: only this is missing
        self.assertTrue((self.folder / "run/consolidated-step-000000020.h5").exists())
        # Trained again to the same step: what is there is not its weights.
        shutil.rmtree(self.folder / "run/checkpoints")
        again = ["recipe.yaml", "checkpoint.consolidate=safetensors", "optim.lr=0.01"]
        self.assertIn("has other weights; move it away", self.train(*again, ranks=2, code=5).err)
        shutil.rmtree(made.parent)
        self.train(*again, ranks=2)
        self.assertEqual(self.weights("run"), made.read_bytes())


if __name__ == "__main__":
    product.main()
