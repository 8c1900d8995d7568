"""Runs with LoRA: resumed to the same bits, on other numbers of ranks, from a base and from adapters; what would be another
model is refused; the base stays as it is, where it is, and must not change; what was not trained is not exported; an adapter
comes back from peft's form byte for byte."""
import json

import product

LORA = {"lora.rank": 3, "lora.alpha": 6, "lora.dropout": 0.1, "train.steps": 6, "checkpoint.every_steps": 3}
WAYS = {  # run: ranks, overrides
    "alone": (1, []),
    "offload": (2, ["shard.offload=cpu", "precision.frozen=bf16"]),
    "summed": (3, ["shard.strategy=shard_optimizer"]),
    "hybrid": (4, ["shard.strategy=hybrid_shard", "shard.mesh.shard=2"]),
}
VARIES = r"/[^' ]*echelon-e2e-\w+|\b[0-9a-f]{16}\b"  # folders of tests, fingerprints


class Tests(product.Case):
    def train_base(self, *overrides, run="base"):
        self.train(self.recipe(f"{run}.yaml", **{"train.steps": 3}), f"run.dir={run}", *overrides)

    def inspected(self, run="run"):
        """(names of the model's tensors in the newest checkpoint, what it says of its base)"""
        said = json.loads(self.command(product.CKPT, "inspect", run, "--json").out)
        return {tensor["name"] for tensor in said["tensors"] if tensor["name"].startswith("model/")}, said["base"]

    def test_resumes_to_the_same_bits_and_on_other_ranks(self):
        self.train(self.recipe(**LORA), ranks=2)
        expected = self.losses(steps=6)
        first, last = self.checkpoints()
        last.rename(self.folder / "uninterrupted")
        self.train("recipe.yaml", ranks=2)
        self.assertEqual(expected, self.losses(steps=6))
        self.command(product.CKPT, "diff", "uninterrupted", "run")
        product.shutil.rmtree(self.checkpoints()[-1])
        self.train("recipe.yaml", "activation_checkpointing.policy=selective", "shard.strategy=shard_grad_op", ranks=3)
        self.assert_close(expected, self.losses(steps=6))

    def test_trains_only_adapters_from_a_base_and_goes_on_from_them(self):
        self.train_base()
        tuned = {**LORA, "checkpoint.init_from": "base", "lora.also_train": "[model.norm]", "lora.modules": '["*_proj"]'}
        self.train(self.recipe(**tuned), ranks=2)
        differing = json.loads(self.command(product.CKPT, "diff", "base", "run", "--json", code=1).out)["tensors"]
        names = {tensor["name"] for tensor in differing if tensor["name"].startswith("model/")}
        self.assertEqual({"model/model.norm.weight"}, {name for name in names if ".lora_" not in name})
        self.assertEqual(2 * 7 * 3, len(names) - 1, "A and B of seven matrices in three blocks")
        held, base = self.inspected()
        self.assertEqual(names, held, "the others are left out")
        self.assertEqual(str(self.checkpoints("base")[0]), base["folder"])
        self.train("recipe.yaml", "run.dir=more", "checkpoint.init_from=run", "train.steps=3", ranks=2)
        self.assertEqual((held, base), self.inspected("more"), "from the same base, not from what trained on it")
        self.assertLess(float(self.losses("more", 3)[0]), float(self.losses(steps=6)[0]))

    def test_checkpoints_without_the_base_resume_to_the_same_bits_in_every_way(self):
        self.train_base()
        self.recipe(**LORA, **{"checkpoint.init_from": "base"})
        for run, (ranks, overrides) in WAYS.items():
            self.train("recipe.yaml", f"run.dir={run}", *overrides, ranks=ranks)
            expected = self.losses(run, steps=6)
            self.checkpoints(run)[-1].rename(self.folder / f"{run}-uninterrupted")
            self.train("recipe.yaml", f"run.dir={run}", *overrides, ranks=ranks)
            self.assertEqual(expected, self.losses(run, steps=6), run)
            self.command(product.CKPT, "diff", f"{run}-uninterrupted", run)
            self.assertFalse([name for name in self.inspected(run)[0] if ".lora_" not in name], run)
            if run != "offload":  # whose base is rounded
                self.assert_close(self.losses("alone", steps=6), expected)
        planned = json.loads(self.command(product.ECHELON, "plan", "recipe.yaml", *overrides, "--gpus-per-node", ranks, "--json").out)
        written = json.loads(self.command(product.CKPT, "inspect", run, "--json").out)["tensor_bytes"]
        self.assertEqual(written, planned["checkpoint"]["bytes"], run)
        self.assertEqual({"bf16"}, {tensor["dtype"] for tensor in self.inspected("offload")[1]["tensors"]})

    def test_the_base_must_be_there_and_what_it_was(self):
        self.train_base()
        self.train_base("run.seed=8", run="other")
        self.recipe(**LORA, **{"checkpoint.init_from": "base"})
        self.train("recipe.yaml", "train.steps=3", ranks=2)
        self.command(product.CKPT, "export", "run", "--merge", "--output", "merged")
        (self.folder / "base").rename(self.folder / "moved")
        resume = self.train_command("recipe.yaml", ranks=2)
        self.expect(5, *resume, hide=VARIES)
        self.expect(5, *resume, "checkpoint.init_from=other", hide=VARIES)
        self.expect(5, product.CKPT, "export", "run", "--merge", "--output", "again", hide=VARIES)
        self.expect(5, product.CKPT, "export", "run", "--merge", "--base", "other", "--output", "again", hide=VARIES)
        self.expect(5, *resume, "checkpoint.init_from=run", "run.dir=new", hide=VARIES)
        self.command(product.CKPT, "export", "run", "--merge", "--base", "moved", "--output", "again")
        self.assertEqual(*((self.folder / name / "model.safetensors").read_bytes() for name in ("merged", "again")))
        for needs_no_base in (["verify"], ["reshard", "--world", "3", "--output", "resharded"], ["export", "--output", "adapter"]):
            self.command(product.CKPT, needs_no_base[0], "run", *needs_no_base[1:])
        self.command(product.CKPT, "diff", "run", "resharded")
        self.train("recipe.yaml", "checkpoint.init_from=moved", ranks=2)

    def test_another_folder_does_not_replace_the_base(self):
        self.train_base()
        for folder in ("hf", "other"):
            self.command(product.CKPT, "export", "base", "--output", folder)
        self.recipe(**LORA)
        first = self.train("recipe.yaml", "model.from=hf", "train.steps=3").err
        again = self.train("recipe.yaml", "model.from=hf/", "train.steps=4").err
        other = self.train("recipe.yaml", "model.from=other", "train.steps=5").err
        self.assertEqual([False, False, True], ["warning: model.from 'other' is not read: the run goes on with the base of "
                                                "its checkpoint, '" in said for said in (first, again, other)])
        self.assertEqual(str(self.folder / "hf"), self.inspected()[1]["folder"])

    def test_an_adapter_comes_back_from_peft_byte_for_byte(self):
        self.train_base("precision.param=fp32")
        tuned = {**LORA, "lora.use_rslora": True, "lora.modules": "[v_proj, layers.1.mlp.down_proj, q_proj]", "lora.also_train": "[lm_head]"}
        self.train(self.recipe(**tuned, **{"checkpoint.init_from": "base"}), ranks=2)
        self.command(product.CKPT, "export", "run", "--output", "adapter")
        self.command(product.CKPT, "export", "base", "--output", "hf")
        self.expect(2, product.CKPT, "import", "adapter", "--output", "imported")
        for base in ("base", "hf"):
            self.command(product.CKPT, "import", "adapter", "--base", base, "--output", f"of-{base}", "--world", "2")
            self.command(product.CKPT, "verify", f"of-{base}")
            self.command(product.CKPT, "export", f"of-{base}", "--output", f"again-{base}")
            for file in ("adapter_config.json", "adapter_model.safetensors"):
                self.assertEqual((self.folder / "adapter" / file).read_bytes(), (self.folder / f"again-{base}" / file).read_bytes())
            self.train("recipe.yaml", f"run.dir=more-{base}", f"checkpoint.init_from=of-{base}", "train.steps=3", ranks=2)
        self.train("recipe.yaml", "run.dir=more-run", "checkpoint.init_from=run", "train.steps=3", ranks=2)
        for base in ("base", "hf"):
            self.command(product.CKPT, "diff", "more-run", f"more-{base}")
        self.train(self.recipe("wide.yaml", **{"train.steps": 1, "schedule.warmup_steps": 0, "run.dir": "wide", "model.intermediate_size": 96}))
        self.expect(5, product.CKPT, "import", "adapter", "--base", "wide", "--output", "no", hide=VARIES)
        self.expect(5, product.CKPT, "import", "adapter", "--base", "run", "--output", "no", hide=VARIES)
        config = json.loads((self.folder / "adapter" / "adapter_config.json").read_text())
        for changed in ({"r": 4}, {"use_dora": True}, {"target_modules": ["q_proj", "v_proj", "mlp.down_proj"]}):
            (self.folder / "adapter" / "adapter_config.json").write_text(json.dumps({**config, **changed}))
            self.expect(5, product.CKPT, "import", "adapter", "--base", "base", "--output", "no", hide=VARIES)
        self.assertFalse((self.folder / "no").exists())

    def test_another_model_than_the_checkpoints_is_refused(self):
        self.train(self.recipe(**LORA), "train.steps=3")
        for change, said in (("lora.rank=4", "lora.rank 3 -> 4"), ("lora.alpha=7", "lora.alpha 6.0 -> 7.0"),
                             ("lora.modules=[q_proj]", "lora.modules "), ("lora.rank=0", "lora.rank 3 -> 0")):
            more = ["lora.alpha=16", "lora.dropout=0"] if change == "lora.rank=0" else []
            for start in ([], ["run.dir=new", "checkpoint.init_from=run"]):
                err = self.train("recipe.yaml", change, *more, *start, code=5).err
                self.assertIn("of a different model", err)
                if not start:
                    self.assertIn(said, err)
        self.assertFalse((self.folder / "new" / "metrics.jsonl").exists())

    def test_what_was_not_trained_is_not_exported(self):
        self.train(self.recipe(**LORA), "train.steps=3")
        self.command(product.CKPT, "export", "run", "--output", "adapter")
        self.assertEqual(["adapter_config.json", "adapter_model.safetensors"], sorted(p.name for p in (self.folder / "adapter").iterdir()))
        self.expect(5, product.CKPT, "consolidate", "run", "--to", "safetensors", "--output", "whole")
        still = ["train.steps=1", "schedule.warmup_steps=0", "run.dir=still"]
        self.train("recipe.yaml", *still, 'optim.lr_factors={"*lora_B*": 0}')
        self.expect(5, product.CKPT, "export", "still", "--output", "empty")
        self.train(self.recipe(), "train.steps=1", "schedule.warmup_steps=0", "run.dir=plain")
        self.expect(5, product.CKPT, "export", "plain", "--merge", "--output", "merged")
        self.expect(2, product.CKPT, "export", "run", "--merge", "--base", "x", "--output", "merged")
        self.expect(2, product.CKPT, "export", "run", "--merge", "--output", "merged", "--mem", "40M")


if __name__ == "__main__":
    product.main()
