"""The recipes that come with the program: each validates, the published ones build their shapes at their size and train in
miniature, and the smoke ones train as they are, on two ranks."""
import pathlib
import re

import product

RECIPES = pathlib.Path(__file__).resolve().parents[2] / "recipes"
# Nodes and ranks on each that a recipe's own comments name.
SIZES = {"llama_179m_article": (1, 4), "llama_8b": (4, 8), "llama_70b": (32, 8), "gpt_175b": (16, 8), "gpt_1t": (16, 8),
         "deepvit_8b": (2, 8), "t5_docstrings": (1, 2), "mnist_ddp": (1, 2), "mnist_fsdp_size_based": (1, 2), "mnist_offload": (1, 2),
         "qwen3_8b": (1, 8), "qwen2_5_7b": (1, 8), "llama_3_2_1b": (1, 2), "llama_3_2_1b_lora": (1, 1), "mistral_7b": (1, 8), "t5_small_wikihow": (1, 4), "t5_3b": (1, 8), "t5_11b": (3, 8)}
# A model and data in place of a recipe's own, by kind of model; everything else stays as the recipe says.
MINIATURE = {
    "llama": ["model.vocab_size=200", "model.hidden_size=32", "model.intermediate_size=48", "model.layers=2", "model.heads=4",
              "model.kv_heads=2", "model.max_positions=64", "data.kind=synthetic_tokens", "data.packing=stream", "data.seq_len=32"],
    "gpt2": ["model.vocab_size=200", "model.hidden_size=32", "model.intermediate_size=128", "model.layers=2", "model.heads=4",
             "model.max_positions=64", "data.kind=synthetic_tokens", "data.seq_len=32"],
    "deepvit": ["model.hidden_size=32", "model.intermediate_size=64", "model.layers=2", "model.heads=4", "model.image_size=16",
                "model.patch_size=4", "model.classes=7"],
    "cnn": ["data.kind=synthetic_images"],
    "t5": ["model.vocab_size=200", "model.hidden_size=32", "model.intermediate_size=48", "model.layers=2", "model.decoder_layers=2",
           "model.heads=4", "model.head_size=8", "data.kind=synthetic_pairs", "data.seq_len=32", "data.target_len=16",
           "data.validation.generate=0", "data.validation.max_new_tokens=128"],
}
MINIATURE |= {kind: MINIATURE["llama"] for kind in ("mistral", "qwen2")} | {"qwen3": MINIATURE["llama"] + ["model.head_size=16"]}
TWO_STEPS = ["train.steps=2", "train.epochs=0", "train.validate_every_steps=0", "train.validate_every_epochs=0",
             "schedule.warmup_steps=0", "schedule.step_epochs=0", "train.device=cpu", "train.threads_per_rank=1",
             "metrics.every_steps=1"]


def names(pattern="*"):
    return sorted(path.stem for path in RECIPES.glob(pattern + ".yaml"))


class Tests(product.Case):
    def validated(self, name, *overrides):
        """Number of parameters and kind of model."""
        out = self.command(product.ECHELON, "validate", RECIPES / f"{name}.yaml", *overrides).out
        return (int(re.match(r"# valid: ([\d,]+) parameters", out).group(1).replace(",", "")),
                re.search(r"^  kind: (\w+)", out[out.index("\nmodel:"):], re.M).group(1))

    def trains(self, name, *overrides):
        self.train(RECIPES / f"{name}.yaml", f"run.dir={name}", *TWO_STEPS, *overrides, ranks=2)
        lines = [product.json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([1, 2], [line["step"] for line in lines])

    def test_each_validates_and_says_first_what_it_is(self):
        self.assertGreaterEqual(len(names()), 6)
        for name in names():
            with self.subTest(name):
                self.validated(name)
                self.assertRegex((RECIPES / f"{name}.yaml").read_text(), r"\A# \S.*[.:]")

    def test_each_is_taken_by_its_name_but_a_file_wins(self):
        came = "recipe 'smoke', which comes with Echelon"
        for command in ("validate", "plan"):
            self.assertIn(came, self.command(product.ECHELON, command, "smoke").err)
        result = self.train("smoke", "train.steps=2", "run.dir=run", "train.device=cpu", ranks=2)
        self.assertEqual(1, result.err.count(came), result.err)
        self.assertEqual(2, len(self.metrics()))
        (self.folder / "smoke.yaml").mkdir()  # no file
        self.command(product.ECHELON, "validate", "smoke.yaml")
        self.recipe("smoke", **{"run.seed": 4711})
        result = self.command(product.ECHELON, "validate", "smoke", "--value", "run.seed")
        self.assertEqual("4711\n", result.out)
        self.assertIn("the file 'smoke', not the recipe of that name", result.err)
        result = self.command(product.ECHELON, "validate", "smok", code=2)
        self.assertIn("did you mean smoke?", result.err)

    def test_each_is_planned_the_published_ones_at_their_size(self):
        for name in names():
            nodes, ranks = SIZES.get(name, (1, 2))
            with self.subTest(name):
                self.command(product.ECHELON, "validate", RECIPES / f"{name}.yaml", "--ranks", nodes * ranks)
                planned = self.command(product.ECHELON, "plan", RECIPES / f"{name}.yaml", "--nodes", nodes,
                                       "--gpus-per-node", ranks, "--gpu", "h100", code=2 if name == "gpt_1t" else 0)
                self.assertEqual(name == "gpt_1t", "does NOT fit" in planned.out)
                parameters, _ = self.validated(name)
                self.assertIn(f"{parameters:,} parameters", planned.out, "the shapes add up to what validate counts")

    def test_the_published_ones_train_in_miniature(self):
        for name in SIZES:
            with self.subTest(name):
                _, kind = self.validated(name)
                self.trains(name, *MINIATURE[kind], "precision.preset=fp32", "precision.param=unset", "precision.reduce=unset",
                            "train.micro_batch_size=1", "train.global_batch_size=4", "shard.mesh.shard=0", 'checkpoint.init_from=""', 'data.validation.path=""',
                            "checkpoint.consolidate=none", "checkpoint.keep_best=false")

    def test_the_smoke_ones_train(self):
        for name in names("*smoke"):
            with self.subTest(name):
                self.trains(name)


if __name__ == "__main__":
    product.main()
