"""echelon prepare is killed and started again: the files are, byte for byte, those of a run that nothing disturbed."""
import gzip
import json
import random
import shutil

import product

FILES = ("train.tok", "valid.tok", "tokenizer.model", "prepare.json")
POINTS = [*(f"prepare_batch::{n}" for n in (1, 2, 3, 5, 8, 11)), *(f"prepare_saved::{n}" for n in (1, 2, 3, 7, 12)),
          *(f"publish::{n}" for n in (1, 2, 5, 9, 13, 14, 15, 16)), "prepare_train", "prepare_finished"]


class Tests(product.Case):
    def write_sources(self):
        """Three files of short lines, one of them packed; some lines are bad, some empty. About twelve batches."""
        words = random.Random(1)
        (self.folder / "in").mkdir()
        for name, opened in (("a.jsonl", open), ("b.jsonl.gz", gzip.open), ("c.jsonl", open)):
            with opened(self.folder / "in" / name, "wt") as file:
                for line in range(16000):
                    text = "" if line % 977 == 0 else " ".join(words.choices(product.WORDS, k=4))
                    file.write(json.dumps({"text": text}) + "\n" if line % 1009 else "no JSON\n")

    def prepare_again(self, output, *options, code=0, **more):
        return self.command(product.ECHELON, "prepare", "in", "-o", output, "--on-bad-record", "skip", "--save-every", 0,
                            *(options or ("--tokenizer", "tokenizer.model")), code=code, **more)

    def assert_same(self, output):
        self.assertEqual(sorted(FILES), sorted(path.name for path in (self.folder / output).iterdir()))
        for name in FILES:
            self.assertEqual((self.folder / "whole" / name).read_bytes(), (self.folder / output / name).read_bytes(), name)

    def test_killed_at_any_point(self):
        self.write_sources()
        self.prepare_again("trained", "--train-tokenizer", 320)
        shutil.copy(self.folder / "trained/tokenizer.model", self.folder)
        whole = self.prepare_again("whole")
        bad = sum(line % 1009 == 0 for line in range(16000))
        empty = sum(line % 977 == 0 and line % 1009 != 0 for line in range(16000))
        for count, what in ((16000 - bad - empty, "kept"), (empty, "left out: empty"), (bad, "left out: not valid JSON at byte N")):
            self.assertRegex(whole.out, rf"(?m)^ +{3 * count}  {what}$")
        resumed = 0
        for point in POINTS:
            with self.subTest(point):
                output = point.replace(":", "-")
                self.prepare_again(output, code=-9, ECHELON_KILL_POINT=point)
                again = self.prepare_again(output)
                self.assert_same(output)
                self.assertNotIn("starting anew", again.err)
                resumed += "resumed behind the first " in again.err
                self.assertEqual(point == "prepare_finished", "nothing to do: " in again.out)
        self.assertGreaterEqual(resumed, 14)

    def test_killed_again_and_again_with_a_tokenizer_to_train(self):
        self.write_sources()
        train = ("--train-tokenizer", 320)
        self.prepare_again("whole", *train)
        for start in range(5):
            killed = {"code": -9, "ECHELON_KILL_POINT": "prepare_batch::3"} if start < 4 else {}
            said = self.prepare_again("out", *train, **killed).err
            self.assertEqual(start > 0, "the tokenizer is the one that an earlier start has trained" in said)
        self.assert_same("out")

    def test_other_options_start_anew(self):
        self.write_sources()
        self.prepare_again("whole", "--train-tokenizer", 320)
        self.prepare_again("out", "--train-tokenizer", 330, "--seed", 2, code=-9, ECHELON_KILL_POINT="prepare_saved::5")
        again = self.prepare_again("out", "--train-tokenizer", 320)
        self.assertIn("starting anew: 'out/prepare.partial' is left from a start with other seed, tokenizer\n", again.err)
        self.assert_same("out")

    MIXTURE = ("prepare", "web=in", "code=src", "--weight", "web=0.7", "--weight", "code=0.3", "--validation-fraction", 0.1)

    def write_mixture(self):
        """`in` with forty times the lines of `src`, whose word is another."""
        words = random.Random(2)
        for name, lines, drawn in (("in", 6000, product.WORDS), ("src", 150, ["struct"])):
            (self.folder / name).mkdir()
            (self.folder / name / "a.jsonl").write_text("".join(
                json.dumps({"text": " ".join(words.choices(drawn, k=5))}) + "\n" for _ in range(lines)))

    def test_mixture(self):
        """The files are those that a command for each source makes, and a recipe takes them as they are."""
        self.write_mixture()
        options = ("--train-tokenizer", 320, "--tokenizer-bytes", 20000)
        made = self.command(product.ECHELON, *self.MIXTURE, "-o", "mix", *options)
        self.assertIn("recipe: model.vocab_size: 320, include: mix/mixture.yaml\n", made.out)
        for name, source in (("web", "in"), ("code", "src")):
            self.command(product.ECHELON, "prepare", source, "-o", f"alone-{name}", "--tokenizer", "mix/tokenizer.model",
                         *self.MIXTURE[-2:])
            for file in FILES[:3]:
                self.assertEqual((self.folder / "mix" / name / file).read_bytes(),
                                 (self.folder / f"alone-{name}" / file).read_bytes(), (name, file))
        # A fortieth of the text, but up to three tenths of the sample: its word is a piece.
        self.command(product.ECHELON, "prepare", "in", "src", "-o", "joined", *options)
        self.assertEqual([True, False], [b"struct" in (self.folder / folder / "tokenizer.model").read_bytes()
                                         for folder in ("mix", "joined")])

        before = {path: path.stat().st_mtime_ns for path in (self.folder / "mix").rglob("*") if path.is_file()}
        again = json.loads(self.command(product.ECHELON, *self.MIXTURE, "-o", "mix", *options, "--json").out)
        self.assertEqual((["web", "code"], [True, True], "mix/mixture.yaml"), (
            list(again["sources"]), [part["up_to_date"] for part in again["sources"].values()], again["recipe"]))
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in before})
        written = self.folder / "mix/mixture.yaml"
        text = written.read_text()
        written.write_text(text.replace("0.7", "0.1"))
        self.assertIn("'mix/mixture.yaml' has another text", self.command(product.ECHELON, *self.MIXTURE, "-o", "mix", *options, code=4).err)
        self.command(product.ECHELON, *self.MIXTURE, "-o", "mix", *options, "--force")
        self.assertEqual(text, written.read_text())
        tokenizer = self.folder / "mix/tokenizer.model"
        model = tokenizer.read_bytes()
        tokenizer.write_bytes(b"")
        self.command(product.ECHELON, *self.MIXTURE, "-o", "mix", *options)
        self.assertEqual(model, tokenizer.read_bytes())
        other = ["web=0.5" if word == "web=0.7" else word for word in self.MIXTURE]
        self.assertIn("'mix/prepare.json' was made from other sources or options",
                      self.command(product.ECHELON, *other, "-o", "mix", *options, code=4).err)

        self.recipe(**{"include": "mix/mixture.yaml", "data.kind": "tokens", "model.vocab_size": 320, "train.steps": 4,
                       "train.validate_every_steps": 4})
        self.train("recipe.yaml")
        self.assertIn("mixture: {mix/web/train.tok: 0.7, mix/code/train.tok: 0.3} ", (self.folder / "run/recipe.yaml").read_text())
        self.assertLess({"validation_loss/web", "validation_loss/code"}, set(self.metrics()[-1]))

    def test_mixture_killed(self):
        self.write_mixture()
        options = ("--train-tokenizer", 320, "--save-every", 0)
        tree = lambda folder: {str(path.relative_to(self.folder / folder)): path.read_bytes().replace(folder.encode(), b"mix")
                               for path in (self.folder / folder).rglob("*") if path.is_file()}
        self.command(product.ECHELON, *self.MIXTURE, "-o", "mix", *options)
        for number, point in enumerate(("publish::1", "publish::2", "publish::3", "prepare_saved::2", "prepare_finished")):
            with self.subTest(point):
                output = f"mi{number}"
                self.command(product.ECHELON, *self.MIXTURE, "-o", output, *options, code=-9, ECHELON_KILL_POINT=point)
                again = self.command(product.ECHELON, *self.MIXTURE, "-o", output, *options)
                whole, made = tree("mix"), tree(output)
                self.assertEqual([], [path for path in whole.keys() | made.keys() if whole.get(path) != made.get(path)])
                self.assertEqual(number > 2, "training the tokenizer" not in again.err, again.err)


if __name__ == "__main__":
    product.main()
