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


if __name__ == "__main__":
    product.main()
