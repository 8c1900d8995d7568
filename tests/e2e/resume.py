"""A run that was stopped or killed and started again ends as one that never was."""
import json
import signal

import product

STEPS = 160  # enough to still be running when a signal arrives in the middle
LONG = [f"train.steps={STEPS}", "checkpoint.every_steps=40", "schedule.warmup_steps=80", "train.global_batch_size=6"]


class Tests(product.Case):
    def assert_same_run_as_uninterrupted(self, ranks):
        """Same steps, same losses to the last digit, same bytes of weights."""
        self.train("recipe.yaml", *LONG, "run.dir=whole", ranks=ranks)
        self.assertEqual(self.losses("whole", STEPS), self.losses("run", STEPS))
        self.assertEqual(self.weights("whole"), self.weights("run"))

    def test_the_highest_rate_of_any_start_is_kept(self):
        """mfu of a run's starts compares, whatever else the machine did when one of them began."""
        recipe = self.recipe()
        self.train(recipe, "train.steps=4")
        kept = self.folder / "run" / "logs" / "cpu_rates.json"
        (conditions, rate), = json.loads(kept.read_text()).items()
        kept.write_text(json.dumps({conditions: 1000 * rate, "another processor": 1}))
        self.train(recipe, "train.steps=6")
        self.assertEqual({conditions: 1000 * rate, "another processor": 1}, json.loads(kept.read_text()))
        for line in self.metrics()[4:]:
            self.assertAlmostEqual(1000 * rate * line["mfu"], 1e12 * line["model_tflops_per_s"], delta=rate)
        kept.write_text("[torn")
        self.assertIn("the rate that mfu is relative to is this start's own", self.train(recipe, "train.steps=8").err)
        kept.unlink()
        kept.mkdir()
        self.assertIn("cpu_rates.json", self.train(recipe, "train.steps=10").err)
        self.assertEqual(10, len(self.metrics()))

    def start_run(self, ranks):
        process = self.start(*self.train_command(self.recipe(), *LONG, ranks=ranks))
        self.wait_for_step(45, process=process)
        return process

    def resume(self, step, ranks):
        again = self.train("recipe.yaml", *LONG, ranks=ranks)
        self.assertIn(f"resumed from step {step}\n", again.err)

    def stop_and_resume(self, number, ranks):
        process = self.start_run(ranks)
        self.stop(process, number)
        stopped_at = len(self.metrics())
        self.assertIn(f"stopped after step {stopped_at} as requested", self.stderr_of_started())
        newest = self.checkpoints()[-1]
        self.assertEqual(f"step-{stopped_at:09}", newest.name.rpartition(".")[0])
        self.assertTrue((newest / "COMMIT").exists(), "the checkpoint of the stop is not committed")
        self.resume(stopped_at, ranks)
        self.assert_same_run_as_uninterrupted(ranks)

    def test_an_extended_run_tells_what_its_learning_rate_does(self):
        recipe = self.recipe(**{"schedule.warmup_steps": 1})
        self.train(recipe, "train.steps=8")
        again = self.train(recipe, "train.steps=40")
        rates = [line["lr"] for line in self.metrics() if line["step"] in (8, 9)]
        self.assertRegex(again.err, rf"(?m)^the learning rate jumps from {rates[0]:.2e} at step 8 to [0-9.e-]+;")
        self.assertNotIn("jumps", self.train(recipe, "train.steps=44", *product.ALWAYS_CONSTANT, "checkpoint.resume=never", "run.dir=b").err)
        self.assertNotIn("jumps", self.train(recipe, "train.steps=48", *product.ALWAYS_CONSTANT, "run.dir=b").err)

    def test_epochs_count_samples_whatever_the_batch_size(self):
        self.prepare()
        keys = {**product.TINY, **product.ON_TOKENS, **product.CONSTANT, "train.epochs": 1, "data.validation.path": "data/valid.tok"}
        del keys["train.steps"]
        recipe = self.folder / "recipe.yaml"
        recipe.write_text(product.yaml_text(keys))
        self.assertIn("nothing is validated", self.train(recipe).err)
        first = self.metrics()[-1]["samples"]
        self.train(recipe, "train.epochs=2", "train.global_batch_size=1", "train.validate_every_epochs=1")
        last = self.metrics()[-1]
        self.assertEqual(2, last["epoch"])
        self.assertIn(first - last["samples"] // 2, range(12))
        self.assertEqual([last["step"]], [line["step"] for line in self.metrics() if line.get("validation_loss")])

    def test_sigterm_on_2_ranks(self):
        self.stop_and_resume(signal.SIGTERM, 2)

    def test_sigusr2_on_1_rank(self):
        self.stop_and_resume(signal.SIGUSR2, 1)

    def kill_and_resume(self, ranks):
        process = self.start(*self.train_command(self.recipe(), *LONG, ranks=ranks))
        self.wait_for_step(1, process=process)
        victims = product.rank_processes(process.pid) or [process.pid]
        self.assertEqual(ranks, len(victims))
        self.wait_for_step(45, process=process)
        metrics = self.folder / "run" / "metrics.jsonl"

        def signal_all(number):
            for pid in victims:
                product.kill(pid, number)

        def stopped_behind_a_checkpoint():
            """Holds all ranks; true when there is a checkpoint, and steps that it does not have."""
            signal_all(signal.SIGSTOP)
            done = product.whole_lines(metrics)[-1]["step"]
            saved = max((int(folder.name[5:14]) for folder in self.checkpoints() if (folder / "COMMIT").exists()), default=0)
            self.assertLess(done, STEPS, "too late to interrupt anything")
            behind = 0 < saved < done
            if not behind:
                signal_all(signal.SIGCONT)
            return behind and (done, saved)
        done, saved = self.wait_for("a step behind a checkpoint", stopped_behind_a_checkpoint)
        self.end(process)
        self.wait_for("the ranks to be gone", lambda: not any(map(product.alive, victims)))
        with metrics.open("a") as file:
            file.write('{"step":' + str(done + 1) + ',"loss":5.')  # as a kill in the middle of a write leaves it
        self.resume(saved, ranks)
        self.assert_same_run_as_uninterrupted(ranks)

    def test_kill_of_every_process_on_2_ranks(self):
        self.kill_and_resume(2)

    def test_kill_of_the_only_rank(self):
        self.kill_and_resume(1)

    def test_a_finished_run_has_nothing_to_do(self):
        self.train(self.recipe(), "train.steps=3", ranks=2)
        before = (self.folder / "run" / "metrics.jsonl").read_bytes(), self.checkpoints()
        again = self.train("recipe.yaml", "train.steps=3", ranks=2)
        self.assertIn("complete: step 3 of 3; nothing to do", again.err)
        self.assertEqual(before, ((self.folder / "run" / "metrics.jsonl").read_bytes(), self.checkpoints()))
        self.assertNotIn("changed", again.err)
        changed = self.train("recipe.yaml", "train.steps=3", "optim.lr=0.004", "optim.weight_decay=0", ranks=2)
        self.assertIn("\nchanged since that checkpoint: optim.lr 0.003 -> 0.004, optim.weight_decay 0.1 -> 0.0\n", changed.err)
        self.assertIn("; the changes to the recipe have no effect on it\n", changed.err)

    def test_more_steps_go_on_where_the_run_ended(self):
        constant = product.ALWAYS_CONSTANT
        self.train(self.recipe(), "train.steps=4", *constant, ranks=2)
        again = self.train("recipe.yaml", "train.steps=8", *constant, ranks=2)
        self.assertIn("\nchanged since that checkpoint: train.steps 4 -> 8\n", again.err)
        lines = self.metrics()
        self.assertEqual([(step * 12 * 16, step * 12) for step in range(1, 9)],
                         [(line["tokens"], line["samples"]) for line in lines], "counted over both starts")
        self.assertEqual(sorted(line["time"] for line in lines), [line["time"] for line in lines])
        self.assertTrue(all(line["mfu"] > 0 for line in lines))
        self.train("recipe.yaml", "train.steps=8", *constant, "run.dir=whole", ranks=2)
        self.assertEqual(self.losses("whole", 8), self.losses("run", 8))
        self.assertEqual(self.weights("whole"), self.weights("run"))


if __name__ == "__main__":
    product.main()
