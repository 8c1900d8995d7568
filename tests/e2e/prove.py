"""`echelon prove`: a right product is within its bounds, a wrong one is told by its exit code and named. That faults in
the engine are found is shown by tests/oracle/seeded_faults.py, which builds them."""
import json
import os
import shutil

import product

# mpirun, after which every run has lost a hundredth of its losses: a product that is wrong on several ranks only.
WRONG_MPIRUN = """#!/bin/sh
{mpirun} "$@" || exit $?
for file in "${{TMPDIR:-/tmp}}"/echelon-prove-*/run-*/metrics.jsonl; do
  sed -i 's/"loss":\\([0-9]*\\)\\.[0-9]/"loss":\\1.0/' "$file"
done
"""
# Head norms, a window, a tied head, seven heads to a key head, patterns of names, bf16, averages, a schedule of more phases
# than steps are proved: what is easily left out.
WIDE = {"model.kind": "qwen3", "model.heads": 14, "model.kv_heads": 2, "model.head_size": 6, "model.window": 7,
        "model.window_from_layer": 1, "model.tie_embeddings": True, "precision.param": "bf16", "optim.no_decay": '["*norm*"]',
        "optim.ema_decay": 0.9, "schedule.kind": "sequence", "schedule.warmup_steps": 0,
        "schedule.sequence": "[linear_warmup 3, constant 2, constant 3, constant 2, constant 4, constant 2, linear_decay 4]"}


class Tests(product.Case):
    def prove(self, *arguments, code=0, **environment):
        (self.folder / "tmp").mkdir(exist_ok=True)
        return self.command(product.ECHELON, "prove", *arguments, code=code, TMPDIR=str(self.folder / "tmp"), **environment)

    def test_a_right_product_is_within_bounds_in_every_part(self):
        proof = json.loads(self.prove(self.recipe(**WIDE), "--json").out)
        self.assertEqual((True, None), (proof["holds"], proof["first_failure"]))
        self.assertEqual([5, 1, 1, 1, 1, 4], [len(part["runs"]) for part in proof["parts"]])
        for part in proof["parts"]:
            for run in part["runs"]:
                values = {difference["what"]: difference["value"] for difference in run["differences"]}
                # Two programs that compute the same in different ways differ a little.
                self.assertTrue(all(value > 0 for what, value in values.items() if what not in ("lr", "samples")), run)
        self.assertEqual({"loss", "grad_norm", "lr", "weights", "averages"}, set(values))
        self.assertEqual([], os.listdir(self.folder / "tmp"))

    def test_a_wrong_product_is_reported_and_named(self):
        real = shutil.which("mpirun")
        wrong = self.folder / "bin" / "mpirun"
        wrong.parent.mkdir()
        wrong.write_text(WRONG_MPIRUN.format(mpirun=real))
        wrong.chmod(0o755)
        recipe = self.recipe(**{"model.layers": 1})
        proof = self.prove(recipe, code=6, PATH=f"{wrong.parent}:{os.environ['PATH']}")
        self.assertIn("first in 2 ranks, full_shard, 2 passes of 1: loss differs by ", proof.err)
        self.assertNotIn("within bounds", proof.out)
        (kept,) = os.listdir(self.folder / "tmp")
        self.assertIn(kept, proof.err)

    def test_adapters_dropout_masks_of_chats_and_overflows_are_compared(self):
        recipe = self.recipe(**{"lora.rank": 16, "lora.modules": "[q_proj, v_proj, mlp.*]", "lora.also_train": "[lm_head]",
                                "lora.dropout": 0.2, "precision": "{preset: fp16, frozen: bf16}", "data.kind": "chat",
                                "data.path": "none.tok", "data.on_bad_record": "skip", "evaluation.tasks": "{none: none.jsonl}"})
        proof = json.loads(self.prove(recipe, "--json").out)
        self.assertTrue(proof["holds"])
        self.assertEqual([1, 5, 1, 2, 4], [len(part["runs"]) for part in proof["parts"]])
        self.assertEqual("chat", proof["parts"][0]["runs"][0]["run"])
        for part in proof["parts"][1:]:
            for run in part["runs"]:
                self.assertEqual({"what": "frozen", "value": 0, "bound": 0, "where": "none"}, run["differences"][-1])
        self.assertEqual(["GPUs and nodes", "adapters that an export merges into the weights", "the files of data",
                          "answers to evaluation.tasks", "the curve of the learning rate"], [line.split(":")[0] for line in proof["not_compared"]])

    def test_what_cannot_be_proved_is_refused(self):
        recipe = self.recipe()
        self.assertIn("optim.lrr", self.prove(recipe, "optim.lrr=1", code=2).err)
        self.assertIn("--ranks", self.prove(recipe, "--ranks", 0, code=2).err)
        self.assertIn("outside of an srun or mpirun step", self.command(
            *product.MPIRUN, "-n", 1, product.ECHELON, "prove", recipe, code=2).err)


if __name__ == "__main__":
    product.main()
