"""Strategies, precision and memory of the engine as a user meets them: same training, other lifetimes; a run can change
its strategy between two starts; half precision finds its scale; what is printed is what is kept."""
import re
import signal

import product

STRATEGIES = {  # name: (overrides, ranks)
    "shard_grad_op": (["shard.strategy=shard_grad_op"], 3),
    "shard_optimizer": (["shard.strategy=shard_optimizer"], 3),
    "no_shard": (["shard.strategy=no_shard"], 2),
    "hybrid_shard": (["shard.strategy=hybrid_shard", "shard.mesh.shard=2"], 4),
    "hybrid_grad_op": (["shard.strategy=hybrid_grad_op", "shard.mesh.replicate=2"], 4),
    "kept_part": (["shard.reshard_after_forward=2"], 4),
    "offload": (["shard.offload=cpu"], 2),
    "recompute": (["activation_checkpointing.policy=full", "shard.wrap.policy=size_based",
                   "shard.wrap.min_params=2000"], 2),
    "selective": (["activation_checkpointing.policy=selective"], 2),
    "last": (["train.reduce_gradients=last_micro_batch"], 3),
    "one_unit": (["shard.wrap.policy=none"], 3),
}
SAME_BITS = [  # settings that must not change a single bit
    ("gathered weights kept", ["shard.reshard_after_forward=false"]),
    ("no forward prefetch", ["shard.forward_prefetch=0"]),
    ("two units ahead", ["shard.forward_prefetch=2"]),
    ("backward prefetch post", ["shard.backward_prefetch=post"]),
    ("backward prefetch none", ["shard.backward_prefetch=none"]),
    ("nothing ahead, all kept", ["shard.forward_prefetch=0", "shard.backward_prefetch=none",
                                 "shard.reshard_after_forward=false"]),
]
FP16 = ["precision.preset=fp16", "precision.param=unset", "precision.buffer=unset"]


class Tests(product.Case):
    def run_of(self, name, *overrides, ranks=1, steps=10):
        self.train(self.recipe(), f"run.dir={name}", f"train.steps={steps}", *overrides, ranks=ranks)
        return self.losses(name, steps)

    def test_every_strategy_trains_the_same_model(self):
        expected = self.run_of("alone")
        for name, (overrides, ranks) in STRATEGIES.items():
            with self.subTest(name):
                self.assert_close(expected, self.run_of(name, *overrides, ranks=ranks))

    def same_bits(self, *overrides):
        expected = self.run_of("expected", *overrides, ranks=2, steps=8)
        self.assertEqual(expected, self.run_of("again", *overrides, ranks=2, steps=8))
        weights = self.weights("expected")
        for what, settings in SAME_BITS:
            name = what.replace(" ", "-").replace(",", "")
            self.assertEqual(expected, self.run_of(name, *overrides, *settings, ranks=2, steps=8), what)
            self.assertEqual(weights, self.weights(name), what)

    def test_prefetch_and_reshard_change_no_bit_in_fp32(self):
        self.same_bits()

    def test_prefetch_and_reshard_change_no_bit_in_bf16(self):
        self.same_bits("precision.param=bf16", "precision.buffer=bf16")

    def test_a_run_changes_strategy_and_world_size_between_two_starts(self):
        constant = product.ALWAYS_CONSTANT
        expected = self.run_of("alone", *constant, steps=10)
        chain = [("full_shard", [], 2), ("no_shard", *STRATEGIES["no_shard"]),
                 ("hybrid_shard", *STRATEGIES["hybrid_shard"]), ("offload", *STRATEGIES["offload"]),
                 ("shard_optimizer", *STRATEGIES["shard_optimizer"])]
        for start, (_, overrides, ranks) in enumerate(chain, 1):
            self.train(self.recipe(), f"train.steps={2 * start}", *constant, *overrides, ranks=ranks)
        self.assert_close(expected, self.losses("run", 10))

    def test_every_optimizer_follows_one_rank_under_every_strategy(self):
        kinds = {"adamw": ['optim.no_decay=["*norm*"]'], "sgd": ["optim.momentum=0.9", "optim.nesterov=true"],
                 "adadelta": ["optim.lr=1", "optim.eps=1e-6"],
                 "anyprecision_adamw": ["optim.momentum_dtype=fp32", "optim.variance_dtype=fp32",
                                        "optim.compensation_dtype=fp32"]}
        places = [STRATEGIES[name] for name in ("shard_grad_op", "shard_optimizer", "no_shard", "hybrid_shard",
                                                "hybrid_grad_op", "offload", "kept_part", "last")]
        for row, (kind, overrides) in enumerate(kinds.items()):
            expected = self.run_of(kind, f"optim.kind={kind}", *overrides, steps=6)
            for column in range(2):  # each optimizer meets two places, each place an optimizer
                place, ranks = places[2 * row + column]
                with self.subTest(f"{kind} {place}"):
                    self.assert_close(expected, self.run_of(f"{kind}-{column}", f"optim.kind={kind}", *overrides,
                                                            *place, ranks=ranks, steps=6))

    def test_bf16_learns_what_fp32_learns(self):
        expected = self.run_of("fp32", ranks=2)
        for name, overrides in {
                "bf16": ["precision.preset=bf16", "precision.param=unset", "precision.buffer=unset"],
                "grad_bf16": ["precision.preset=grad_bf16"],
                "norms": ["precision.param=bf16", 'precision.overrides={"*norm": fp32, "lm_head": fp32}'],
                "pure": ["precision.preset=bf16_pure", "precision.param=unset", "precision.buffer=unset",
                         "optim.kind=anyprecision_adamw"],
        }.items():
            with self.subTest(name):
                rounded = self.run_of(name, *overrides, ranks=2)
                self.assertNotEqual(expected, rounded)
                self.assert_close(expected, rounded, relative=1e-2)

    def test_fp16_finds_its_scale_and_keeps_it_over_a_restart(self):
        expected = self.run_of("fp32", ranks=2)
        # 2^40 overflows at first; every overflow halves it and leaves the step out.
        scale = ["precision.loss_scale=1099511627776", "precision.loss_scale_growth_steps=1000"]
        self.train(self.recipe(), *FP16, *scale, "train.steps=40", ranks=2)
        lines = self.metrics()
        skipped = lines[-1]["skipped_steps"]
        self.assertGreater(skipped, 5)
        self.assertEqual(2.0 ** (40 - skipped), lines[-1]["loss_scale"])
        self.assertLess(lines[-1]["loss"], float(expected[0]), "it learns once the scale fits")
        self.train(self.recipe(), *FP16, *scale, "train.steps=42", ranks=3)
        self.assertEqual((skipped, lines[-1]["loss_scale"]),
                         (self.metrics()[-1]["skipped_steps"], self.metrics()[-1]["loss_scale"]))

    def test_fp16_learns_what_fp32_learns(self):
        expected = self.run_of("fp32", ranks=2)
        self.assert_close(expected, self.run_of("fp16", *FP16, ranks=2), relative=1e-3)

    def test_steps_that_are_not_finite_are_left_out_and_end_the_run_when_there_are_too_many(self):
        # Weights of 1e18: their products overflow at once, in every step.
        overflow = ["model.init_std=10", "optim.lr=100", "train.clip_grad_norm=0", "optim.eps=0.9", "precision.param=fp16",
                    "precision.loss_scale=1"]
        result = self.train(self.recipe(), *overflow, "train.non_finite=skip", "train.max_skipped_steps=3", code=6)
        self.assertRegex(result.err, r"step \d+ skipped: (loss|gradient norm) is not finite")
        self.assertRegex(result.err, r"echelon: step \d+: \S+.* is not finite, for \d+ steps in a row")
        self.assertEqual([], self.checkpoints(), "nothing of it is saved")
        self.assertTrue(result.err.rstrip().endswith("the run has no checkpoint yet"), result.err)
        self.train(self.recipe(**{"train.steps": 4, "checkpoint.every_steps": 2}))
        result = self.train("recipe.yaml", "train.steps=80", *overflow[1:], "checkpoint.keep_last=0", code=6)
        newest = int(self.checkpoints()[-1].name.split("-")[1].split(".")[0])
        self.assertTrue(result.err.rstrip().endswith(f"the newest checkpoint, of step {newest}, is intact"), result.err)
        log = (self.folder / "run/logs/rank-0.log").read_text()  # an error leaves memory and the last collectives there
        self.assertRegex(log, r" D \[rank 0/1 .*memory of this rank: weights ")
        self.assertRegex(log, r"#\d+ reduce-scatter '[^']+' ")

    def test_muon_goes_on_with_other_ranks_and_strategies_but_not_as_another_optimizer(self):
        muon = ["optim.kind=muon", *product.ALWAYS_CONSTANT]
        expected = self.run_of("alone", *muon, steps=6)
        for steps, ranks, place in ((2, 2, []), (4, 3, ["shard.strategy=shard_optimizer"]),
                                    (6, *reversed(STRATEGIES["hybrid_shard"]))):
            self.train(self.recipe(), *muon, f"train.steps={steps}", *place, ranks=ranks)
        self.assert_close(expected, self.losses("run", 6))
        result = self.train("recipe.yaml", "train.steps=7", code=5)
        self.assertIn("was trained with optim.kind muon (exp_avg fp32, exp_avg_sq fp32, muon_momentum fp32); this recipe "
                      "has adamw", result.err)

    def test_clipping_by_value_bounds_the_update(self):
        # SGD without momentum: a step moves no weight by more than lr x the bound.
        sgd = ["optim.kind=sgd", "optim.lr=1", "optim.weight_decay=0", *product.ALWAYS_CONSTANT, "train.clip_grad_norm=0"]
        free = self.run_of("free", *sgd, ranks=2, steps=2)
        tight = self.run_of("tight", *sgd, "train.clip_grad_value=1e-9", ranks=2, steps=2)
        self.assertEqual(free[0], tight[0])
        self.assert_close([tight[0]], [tight[1]], relative=1e-2)
        self.assertNotEqual(free[1], tight[1])

    def test_the_start_and_plan_print_the_same_units(self):
        overrides = ["shard.wrap.policy=modules", 'shard.wrap.modules=["*.mlp", "lm_head"]']
        run = self.train(self.recipe(), *overrides, "train.steps=3", "-v", ranks=2).err
        plan = self.command(product.ECHELON, "plan", "recipe.yaml", *overrides, "--tasks-per-node", 2, "--units").out
        units = re.findall(r"(?m)^ *(?:root|model\.|lm_head).*$", plan)
        self.assertEqual(3, len(units), plan)
        self.assertEqual([u.strip() for u in units],
                         [u.strip() for u in re.findall(r"(?m)^ +(?:root|model\.|lm_head).*$", run)])
        self.assertIn("model.layers.0.mlp to model.layers.2.mlp (3 units)", plan)

    def test_a_pattern_that_matches_nothing_is_refused_once(self):
        result = self.train(self.recipe(), "shard.wrap.policy=modules", 'shard.wrap.modules=["model.layer.*"]',
                            ranks=3, code=2)
        self.assertEqual(1, result.err.count("pattern 'model.layer.*' matches no module"), result.err)
        result = self.train(self.recipe(), 'optim.no_decay=["*.bias"]', ranks=2, code=2)
        self.assertEqual(1, result.err.count("*.bias"), result.err)
        self.assertFalse((self.folder / "run").exists(), "a start that is refused leaves nothing")

    def test_a_running_job_tells_its_memory_when_asked(self):
        self.recipe()
        process = self.start(*self.train_command("recipe.yaml", "train.steps=100000", ranks=2))
        self.wait_for("the first line", lambda: "starting run" in self.stderr_of_started())
        # Also while it starts, which must not end it.
        self.wait_for("the first metrics", lambda: product.kill(process.pid, signal.SIGUSR1)
                      or (self.folder / "run/metrics.jsonl").exists() or process.poll() is not None)
        self.wait_for_step(3, process=process)
        before = (self.folder / "run/logs/rank-0.log").read_text().count("memory of this rank")
        product.kill(process.pid, signal.SIGUSR1)
        self.wait_for("a second report", lambda: (self.folder / "run/logs/rank-0.log").read_text()
                      .count("memory of this rank") > before)

    def test_persistent_bytes_are_those_of_the_formula(self):
        sizes = {"model.hidden_size": 160, "model.intermediate_size": 352, "model.vocab_size": 1009}
        for name, (overrides, ranks) in {"full_shard": ([], 4), **STRATEGIES}.items():
            if name in ("recompute", "selective", "last", "kept_part", "offload"):
                continue
            group = {"no_shard": 1, "hybrid_shard": 2, "hybrid_grad_op": 2}.get(name, ranks)
            with self.subTest(name):
                plan = self.command(product.ECHELON, "plan", self.recipe(**sizes), *overrides,
                                    "--tasks-per-node", ranks).out
                count = int(re.search(r"llama: ([\d,]+) parameters", plan)[1].replace(",", ""))
                err = self.train(self.recipe(**sizes), f"run.dir={name}", *overrides, "train.steps=3", "-v", ranks=ranks).err
                kept = re.search(r"memory of this rank: weights ([\d.]+) (\w+), gradients ([\d.]+) (\w+), optimizer "
                                 r"([\d.]+) (\w+)", err).groups()
                unit = {"KiB": 1 << 10, "MiB": 1 << 20}
                total = sum(float(kept[i]) * unit[kept[i + 1]] for i in (0, 2, 4))
                self.assertLess(abs(total / (16 * count / group) - 1), 0.02, f"{kept}, {count} parameters")


if __name__ == "__main__":
    product.main()
