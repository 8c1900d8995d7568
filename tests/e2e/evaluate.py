"""Tasks: the scores of a run are those of its checkpoints, on any number of ranks, and choose the step that is kept."""
import json
import re

import product
from sample import LINE, TOKENIZER

WORDS = LINE.split()


def choices():
    """Which word comes next in LINE; the last questions have wrong answers."""
    for i, word in enumerate(WORDS[:-1]):
        others = [other for other in WORDS if other != WORDS[i + 1]][:3]
        yield {"context": " ".join(WORDS[max(0, i - 1):i + 1]), "choices": [*others, WORDS[i + 1]], "answer": 3}
    for word in WORDS[1:3]:
        yield {"context": word + "  ", "choices": ["five", "über"], "answer": 1}


def answers():
    yield {"prompt": "two three", "answers": ["four five six seven"]}
    yield {"prompt": "three four", "answers": ["five  six seven", " five six seven "]}
    yield {"prompt": "four five", "answers": ["no"]}


class Tests(product.Case):
    def setUp(self):
        super().setUp()
        for name, items in (("next", choices()), ("rest", answers())):
            (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))

    def trained(self, *overrides, ranks=2, **keys):
        (self.folder / "tokenizer.json").write_text(TOKENIZER)
        (self.folder / "text.txt").write_text(LINE * 400)
        self.command(product.ECHELON, "prepare", "text.txt", "-o", "data", "--tokenizer", "tokenizer.json",
                     "--validation-fraction", 0)
        recipe = self.recipe(**{**product.ON_TOKENS, "train.steps": 80, "optim.lr": 5e-3, "train.micro_batch_size": 6,
                                "data.seq_len": 32, "evaluation.tasks": "{next: next.jsonl, rest: rest.jsonl}",
                                "evaluation.max_new_tokens": 20, "evaluation.max_share": 1, **keys})
        return self.train(recipe, *overrides, ranks=ranks)

    def evaluate(self, what, *options, task="next.jsonl"):
        return json.loads(self.command(product.ECHELON, "evaluate", what, "--task", task, "--tokens", 20, "--json",
                                       *options).out)["tasks"]

    def scores(self):
        return {line["step"]: {name: value for name, value in line.items() if name.startswith("eval/")}
                for line in self.metrics() if any(name.startswith("eval/") for name in line)}

    def test_a_run_scores_what_its_checkpoints_score(self):
        self.trained("evaluation.every_steps=30", "evaluation.best=next", "checkpoint.keep_best=true",
                     "checkpoint.keep_last=1")
        scores = self.scores()
        self.assertEqual([30, 60, 80], list(scores))
        self.assertEqual({"eval/next/acc", "eval/next/acc_norm", "eval/next/acc_bytes", "eval/rest/exact"}, set(scores[80]))
        self.assertEqual(0.75, scores[80]["eval/next/acc"], "six of eight are right, the others are wrong on purpose")
        self.assertEqual(2 / 3, scores[80]["eval/rest/exact"])
        best = max(value["eval/next/acc"] for value in scores.values())
        first = min(step for step, value in scores.items() if value["eval/next/acc"] == best)
        self.assertEqual({"step": first, "task": "next", "score": best},
                         json.loads((self.folder / "run/best_validation.json").read_text()))
        self.assertTrue(list((self.folder / "run/checkpoints").glob(f"step-{first:09d}.*")), "the best step is kept")
        self.assertIn("eval/next/acc", self.command(product.ECHELON, "metrics", "run", "--to", "csv").out)
        self.command(product.ECHELON, "report", "run")
        page = (self.folder / "run/report.html").read_text()
        self.assertIn("Task next", page)
        self.assertIn("acc_norm", page)
        alone = self.evaluate("run")
        self.assertEqual({"kind": "choices", "items": 8, "acc": 0.75}, {k: alone["next"][k] for k in ("kind", "items", "acc")})
        for ranks in (2, 3):
            self.assertEqual(alone, self.evaluate("run", "--ranks", ranks))
            rest = self.evaluate("run", "--ranks", ranks, task="rest.jsonl")["rest"]
            self.assertAlmostEqual((2 / 9 / 2) ** 0.5, rest.pop("exact_stderr"))
            self.assertEqual({"kind": "exact", "items": 3, "exact": 2 / 3}, rest)
        line = "next: acc 0.75 +- 0.1637, acc_norm "
        self.assertIn(line, self.command(product.ECHELON, "evaluate", "run", "--task", "next.jsonl").out)
        evaluate = [product.ECHELON, "evaluate", "run", "--task", "next.jsonl", "--ranks", 2]
        text = self.on_terminal(*evaluate)
        self.assertRegex(text, rf"\x1b\[\?7lloading the weights\x1b(.|\n)*\x1b\[\?7lnext\x1b(.|\n)*{re.escape(line)}")
        text = self.on_terminal(*evaluate, "--quiet")
        self.assertIn(line, text)
        self.assertNotIn("\x1b", text)
        self.assertEqual(4, self.evaluate("run", "--limit", 4)["next"]["items"])
        self.assertEqual(0.0, self.evaluate("run", "--after", "####", task="rest.jsonl")["rest"]["exact"])

    def test_scores_are_those_of_fp32_whatever_the_run_computed_in(self):
        pairs = [{"context": context, "choices": [one, other], "answer": 1}
                 for context in ("a", "the", "in") for one in "bcdfghjkqxyz" for other in "bcdfghjkqxyz" if one != other]
        (self.folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
        self.trained("precision.output=bf16", "train.steps=5", ranks=1)
        self.assertEqual(0.5, self.evaluate("run", task="pairs.jsonl")["pairs"]["acc"],
                         "of the two orders of two choices one is right, unless rounded logits are equal")

    def test_evaluations_stay_within_their_share(self):
        said = self.trained("evaluation.every_steps=1", "evaluation.max_share=0.0001", **{"train.steps": 6})
        self.assertEqual([1, 6], list(self.scores()))
        self.assertEqual(4, str(said).count("an evaluation is left out: it would exceed evaluation.max_share"), str(said))

    def test_a_resumed_run_goes_on_evaluating(self):
        self.trained("evaluation.every_steps=3", "evaluation.best=rest", **{"train.steps": 6})
        self.train("recipe.yaml", "evaluation.every_steps=3", "evaluation.best=next", "train.steps=12",
                   "train.micro_batch_size=4", ranks=3)
        self.assertEqual([3, 6, 9, 12], list(self.scores()))
        self.assertEqual("next", json.loads((self.folder / "run/best_validation.json").read_text())["task"])

    def test_questions_that_a_model_cannot_take_end_the_start(self):
        self.trained(**{"train.steps": 3})
        (self.folder / "long.jsonl").write_text(json.dumps({"context": LINE * 9, "choices": ["a", "b"], "answer": 0}))
        for override, code, reason in (
                ("evaluation.tasks={long: long.jsonl}", 4, "long.jsonl:1: the item has "),
                ("evaluation.tasks={gone: gone.jsonl}", 4, "gone.jsonl"),
                ("evaluation.best=other", 2, "evaluation.best names 'other', which evaluation.tasks does not have"),
                ("data.kind=synthetic_tokens", 2, "evaluation.tasks is set, but data.kind: synthetic_tokens has no tokenizer")):
            said = self.command(product.ECHELON, "train", "recipe.yaml", "run.dir=other", override, code=code).err
            self.assertIn(reason, said)
            self.assertFalse((self.folder / "other").exists())
        (self.folder / "bare").mkdir()
        product.shutil.copy(self.folder / "data/train.tok", self.folder / "bare")
        said = self.command(product.ECHELON, "train", "recipe.yaml", "run.dir=other", "data.path=''",
                            "data.mixture={bare/train.tok: 1}", code=4).err
        self.assertIn("there is no tokenizer: expected one beside 'bare/train.tok', or data.tokenizer", said)
        for options, code, reason in ((("--task", "long.jsonl"), 4, "long.jsonl:1: the item has "),
                                      (("--task", "next.jsonl", "--task", "./next.jsonl"), 2, "have the same name, next"),
                                      (("--task", "rest.jsonl", "--until", ""), 2, "--until is empty"),
                                      ((), 2, "--task is required")):
            self.assertIn(reason, self.command(product.ECHELON, "evaluate", "run", *options, code=code).err)


if __name__ == "__main__":
    product.main()
