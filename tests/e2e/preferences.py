"""Pairs of answers from a JSONL file to a model trained with DPO: what it learns, what it compares with, what is refused."""
import json
import math
import random
import re

import product
import chat_folder

ON_PAIRS = {"data.kind": "preference", "data.path": "data/train.tok", "data.validation.path": "data/valid.tok",
            "data.validation.batches": 0, "data.seq_len": 160, "model.max_positions": 160, "model.vocab_size": 262,
            "train.validate_every_steps": 4, "train.global_batch_size": 6, "train.steps": 4, "train.dpo.beta": 0.5,
            **product.CONSTANT}
REFERENCE = "reference.logps"


def pair(prompt, chosen, rejected):
    turn = lambda role, text: {"role": role, "content": text}
    return {"prompt": [turn("user", prompt)], "chosen": [turn("assistant", chosen)], "rejected": [turn("assistant", rejected)]}


class Tests(product.Case):
    def prepare_command(self, lines, *options, output="data"):
        chat_folder.write(self.folder / "hf")
        (self.folder / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return [product.ECHELON, "prepare", "pairs.jsonl", "--format", "preference", "--tokenizer", "hf", "-o", output, "--json", *options]

    def prepare_pairs(self, lines, *options):
        return json.loads(self.command(*self.prepare_command(lines, *options)).out)

    def pairs(self, count=60):
        """The chosen answer says "yes" first; answers differ in length, so that micro-batches do."""
        chance = random.Random(5)
        lines = [pair(chance.choice(product.WORDS), "yes" + " the" * chance.choice((1, 1, 7)), "no" + " the" * chance.choice((1, 1, 7)))
                 for _ in range(count)]
        return self.prepare_pairs(lines, "--validation-fraction", 0.2)

    def reference(self, run):
        return (self.checkpoints(run)[-1] / REFERENCE).read_bytes()

    def test_a_short_training_learns_what_is_preferred_and_tells_it(self):
        report = self.pairs(120)
        self.assertEqual(120, report["kept_records"])
        self.assertEqual(0, report["train"]["documents"] % 2)
        self.train(self.recipe(**ON_PAIRS), "train.steps=16", "train.validate_every_steps=8")
        lines = self.metrics()
        # The model is the reference then: every margin is zero.
        self.assertAlmostEqual(math.log(2), lines[0]["loss"], 5)
        self.assertAlmostEqual(0, lines[0]["rewards/margins"], 5)
        last = lines[-1]
        self.assertEqual(1, last["rewards/accuracies"])
        self.assertEqual(1, last["validation_accuracy"])
        self.assertLess(last["validation_loss"], 0.5)
        self.assertGreater(last["rewards/margins"], 0.5)
        self.assertAlmostEqual(last["rewards/margins"], last["rewards/chosen"] - last["rewards/rejected"], 6)
        self.assertLess(last["logps/rejected"], last["logps/chosen"])

    def test_losses_agree_whatever_ranks_and_after_a_resume_which_reads_the_reference(self):
        self.pairs()
        recipe = self.recipe(**ON_PAIRS)
        one = self.train(recipe, "run.dir=one")
        self.assertIn("reference log-probabilities of", one.err)
        self.train(recipe, "run.dir=three", ranks=3)
        self.assert_close(self.losses("one", 4), self.losses("three", 4))
        self.assertEqual(self.reference("one"), self.reference("three"))
        self.train(recipe, "run.dir=parts", "train.steps=2")
        again = self.train(recipe, "run.dir=parts")
        self.assertNotIn("reference log-probabilities of", again.err)
        self.assertEqual(self.losses("one", 4), self.losses("parts", 4))
        self.assertEqual(self.weights("one"), self.weights("parts"))
        self.assertEqual(self.reference("one"), self.reference("parts"))

    def test_adapters_compare_with_the_base_and_go_on_to_the_same_bytes(self):
        self.pairs()
        self.train(self.recipe(**{**ON_PAIRS, "data.kind": "synthetic_tokens", "data.path": '""', "data.validation.path": '""',
                                  "train.validate_every_steps": 0, "train.dpo.beta": 0.1, "run.dir": "base", "train.steps": 1}))
        recipe = self.recipe(**{**ON_PAIRS, "lora.rank": 3, "lora.dropout": 0.1, "checkpoint.init_from": "base"})
        self.train(recipe, "run.dir=whole")
        self.assertGreater(self.metrics("whole")[-1]["rewards/margins"], 0)
        self.train(recipe, "run.dir=parts", "train.steps=2", ranks=2)
        self.train(recipe, "run.dir=parts")
        self.assert_close(self.losses("whole", 4), self.losses("parts", 4))
        self.assertEqual(self.reference("whole"), self.reference("parts"))

    def test_a_run_killed_while_it_computes_the_reference_starts_as_if_it_never_had(self):
        self.pairs(1000)
        recipe = self.recipe(**ON_PAIRS)
        process = self.start(*self.train_command(recipe, "run.dir=run", ranks=2))
        self.wait_for("the reference", lambda: "reference log-probabilities" in self.stderr_of_started() or process.poll() is not None)
        self.end(process)
        self.assertEqual([], self.checkpoints("run"), "killed before the first step")
        self.train(recipe, "run.dir=run", ranks=2)
        self.train(recipe, "run.dir=whole", ranks=2)
        self.assertEqual(self.losses("whole", 4), self.losses("run", 4))
        self.assertEqual(self.weights("whole"), self.weights("run"))

    def test_a_damaged_reference_is_taken_from_an_older_checkpoint_or_refused(self):
        self.pairs()
        recipe = self.recipe(**ON_PAIRS)
        self.train(recipe, "train.steps=3", "checkpoint.every_steps=1")
        newest, older = self.checkpoints()[-1], self.checkpoints()[-2]
        self.flip(newest.relative_to(self.folder) / REFERENCE, 40)
        self.assertIn("the next checkpoint gets it from", self.train(recipe, "train.steps=4").err)
        for folder in self.checkpoints():
            if folder != older:
                self.flip(folder.relative_to(self.folder) / REFERENCE, 41)
        self.flip(older.relative_to(self.folder) / REFERENCE, 42)
        self.expect(5, *self.train_command(recipe, "train.steps=6"), hide=r"'[^']*/checkpoints/[^']*'|\d+ bytes|[0-9a-f]{8}")

    def test_other_pairs_than_those_of_the_reference_are_refused(self):
        self.pairs()
        recipe = self.recipe(**ON_PAIRS)
        self.train(recipe)
        self.expect(5, *self.train_command(recipe, "train.steps=6", "data.validation.path=data/train.tok"))

    def test_what_does_not_go_together_is_refused(self):
        self.pairs()
        recipe = self.recipe(**ON_PAIRS)
        self.expect(4, *self.train_command(recipe, "data.kind=chat", "train.dpo.beta=0.1"))
        self.expect(4, *self.train_command(recipe, "data.seq_len=20"))
        mixture = {key: value for key, value in ON_PAIRS.items() if key != "data.path"}
        self.expect(2, *self.train_command(self.recipe("mixture.yaml", **mixture, **{"data.mixture": "{data/train.tok: 1}"})))
        self.expect(2, *self.train_command(recipe, "model.kind=t5"))
        self.expect(2, *self.train_command(recipe, "data.kind=tokens"))
        self.expect(2, product.ECHELON, "prove", recipe)

    def test_bad_pairs_are_named_and_counted_and_never_half_a_pair_is_kept(self):
        good = pair("alpha", "yes", "no")
        turns = lambda *said: [{"role": role, "content": text} for role, text in said]
        whole = {"chosen": turns(("user", "a"), ("assistant", "b")), "rejected": turns(("user", "a"), ("assistant", "c"))}
        texts = {"prompt": "a", "chosen": "b", "rejected": "c"}
        bad = [{**good, "rejected": good["chosen"]}, {**good, "rejected": []}, {**good, "chosen": turns(("assistant", " "))},
               {"chosen": whole["chosen"], "rejected": turns(("user", "z"), ("assistant", "c"))},
               {"chosen": whole["chosen"], "rejected": whole["chosen"][:1]}, {"chosen": "b", "rejected": "c"},
               {**texts, "rejected": turns(("assistant", "c"))}, {"prompt": "a", "chosen": "b"}, {**good, "chosen": turns(("user", "b"))},
               {**good, "prompt": 3}, good["chosen"]]
        for line in bad:
            self.expect(4, *self.prepare_command([good, line], output="new"))
        self.assertFalse((self.folder / "new" / "train.tok").exists())
        report = self.prepare_pairs([good, *bad, whole, texts], "--on-bad-record", "skip", "--validation-fraction", 0)
        self.assertEqual((3, len(bad)), (report["kept_records"], report["bad_records"]))
        self.assertEqual(6, report["train"]["documents"])
        self.expect(2, product.ECHELON, "prepare", "pairs.jsonl", "--format", "preference", "--tokenizer", "hf", "-o", "data",
                    "--messages", "talk")

    def test_only_the_answer_is_trained_whatever_the_prompt_holds(self):
        said = lambda text: {"role": "assistant", "content": text}
        asked = lambda text: {"role": "user", "content": text}
        line = {"chosen": [asked("a"), said("b"), asked("c"), said("d")], "rejected": [asked("a"), said("b"), asked("c"), said("e")]}
        command = self.prepare_command([line], "--validation-fraction", 0, "--show", 2)
        shown = self.command(*[word for word in command if word != "--json"]).out
        self.assertEqual(["d<|im_end|>\n", "e<|im_end|>\n"], re.findall("⟦([^⟧]*)⟧", shown))
        self.assertEqual(2, shown.count("assistant\nb<|im_end|>"))


if __name__ == "__main__":
    product.main()
