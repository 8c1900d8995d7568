"""Prepare, train, sample: the same prompt, weights and seed give the same text, however many ranks trained."""
import json
import re

import product
import chat_folder

LINE = "one two three four five six seven\n"
MERGES = [("t", "h"), ("Ġ", "t"), ("Ġt", "w"), ("Ġtw", "o"), ("Ġ", "th"), ("Ġ", "f"), ("e", "e"), ("Ġ", "s"), ("i", "v"),
          ("iv", "e")]  # some of LINE's words
TOKENIZER = json.dumps(chat_folder.document(["<|endoftext|>"], MERGES))


class Tests(product.Case):
    def sample(self, *options, checkpoint="run", prompt="alpha beta"):
        return self.command(product.ECHELON, "sample", checkpoint, "--prompt", prompt, *options).out

    def trained(self, *overrides, ranks=1):
        self.prepare()
        self.train(self.recipe(**{**product.ON_TOKENS, "train.steps": 30, "data.validation.path": "data/valid.tok",
                                  "data.validation.batches": 1, "train.validate_every_steps": 10}),
                   *overrides, ranks=ranks)

    def test_the_likeliest_text_is_always_the_same(self):
        self.trained(ranks=2)
        text = self.sample("--tokens", 12)
        self.assertTrue(text.startswith("alpha beta"), text)
        self.assertGreater(len(text), len("alpha beta\n"))
        self.assertEqual(text, self.sample("--tokens", 12))
        self.assertEqual(text, self.sample("--tokens", 12, "--seed", 9), "temperature 0 draws nothing")
        self.assertEqual(text, self.sample("--tokens", 12, checkpoint=self.checkpoints()[-1]))
        self.assertTrue(self.sample("--tokens", 20).startswith(text[:-1]), "more tokens only add to the text")

    def test_beams_and_prompt_files(self):
        self.trained()
        text = self.sample("--tokens", 12, "--beams", 4)
        self.assertTrue(text.startswith("alpha beta"), text)
        self.assertEqual(text, self.sample("--tokens", 12, "--beams", 4, "--seed", 9))
        prompts = ["alpha beta", "gamma", "delta epsilon zeta"]
        (self.folder / "prompts.txt").write_text("\n".join(prompts) + "\n")
        for options in ((), ("--beams", 4)):
            together = self.command(product.ECHELON, "sample", "run", "--prompt-file", "prompts.txt", "--tokens", 12,
                                    *options).out
            alone = [self.command(product.ECHELON, "sample", "run", "--prompt", prompt, "--tokens", 12, *options).out
                     for prompt in prompts]
            self.assertEqual("".join(alone), together)
        (self.folder / "prompts.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(prompts).encode() + b"\r\n")
        self.assertEqual(together, self.command(product.ECHELON, "sample", "run", "--prompt-file", "prompts.txt", "--tokens", 12,
                                                *options).out, "lines of another system")

    def test_an_adapter_speaks_on_its_base_where_that_has_moved(self):
        self.trained("run.dir=base")
        self.train("recipe.yaml", "checkpoint.init_from=base", "lora.rank=2", "optim.lr=0.1")
        text = self.sample("--tokens", 12)
        self.assertNotEqual(text, self.sample("--tokens", 12, checkpoint="base"))
        (self.folder / "base").rename(self.folder / "moved")
        self.assertIn("--base", self.command(product.ECHELON, "sample", "run", "--prompt", "alpha", "--tokens", 4, code=5).err)
        self.assertEqual(text, self.sample("--tokens", 12, "--base", "moved"))

    def test_several_ranks_print_what_one_process_does(self):
        self.trained()
        prompts = ["alpha beta", "gamma", "delta epsilon zeta", ":", "", "--tokens=3", "the 'quoted' \"words\""]
        (self.folder / "prompts.txt").write_text("\n".join(prompts) + "\n")
        together = [option for prompt in prompts for option in ("--prompt", prompt)]
        for options in ((), ("--beams", 4), ("--temperature", 1, "--top-k", 20, "--seed", 5)):
            options = ("--tokens", 12, *options)
            self.assertEqual(self.sample(*options), self.sample(*options, "--ranks", 2))
            alone = self.command(product.ECHELON, "sample", "run", "--prompt-file", "prompts.txt", *options).out
            self.assertEqual(len(prompts), alone.count("\n"), alone)
            self.assertEqual(alone, self.command(product.ECHELON, "sample", "run", *together, *options,
                                                 "--ranks", 3).out)

    def test_ranks_of_a_step_print_what_one_process_does(self):
        self.trained(ranks=2)
        alone = self.sample("--tokens", 12)
        result = self.command(*product.MPIRUN, "-n", 2, product.ECHELON, "sample", "run", "--prompt", "alpha beta", "--tokens", 12)
        self.assertEqual(alone, result.out)
        self.assertEqual("", result.err)
        text = self.on_terminal(product.ECHELON, "sample", "run", "--prompt", "alpha beta", "--tokens", 12)
        self.assertRegex(text, rf"lloading the weights\x1b(.|\n)*lsampling\x1b(.|\n)*\x1b\[K{re.escape(alone)}$")

    def test_a_tokenizer_json_prepares_trains_and_samples(self):
        (self.folder / "tokenizer.json").write_text(TOKENIZER)
        (self.folder / "text.txt").write_text(LINE * 400)
        self.command(product.ECHELON, "prepare", "text.txt", "-o", "data", "--tokenizer", "tokenizer.json",
                     "--validation-fraction", 0)
        self.train(self.recipe(**{**product.ON_TOKENS, "train.steps": 80, "optim.lr": 5e-3,
                                  "train.micro_batch_size": 6, "data.seq_len": 32}), ranks=2)
        text = self.sample("--tokens", 25, prompt="four five")
        self.assertEqual("four five six seven\none two three four five six\n", text)
        (self.folder / "prompts.txt").write_text("four\n\nfive\n")
        said = self.command(product.ECHELON, "sample", "run", "--prompt-file", "prompts.txt", "--tokens", 4, code=2).err
        self.assertIn("--prompt-file 'prompts.txt', line 2: a prompt is empty", said, "it has no start token either")
        # The checkpoint brings its tokenizer.
        product.shutil.rmtree(self.folder / "data")
        (self.folder / "tokenizer.json").unlink()
        self.assertEqual(text, self.sample("--tokens", 25, prompt="four five"))

    def test_one_of_the_likeliest_tokens_is_the_likeliest(self):
        self.trained()
        text = self.sample("--tokens", 12)
        drawn = ("--temperature", 1, "--tokens", 12)
        self.assertEqual(text, self.sample(*drawn, "--top-k", 1))
        self.assertEqual(text, self.sample(*drawn, "--top-p", 0))
        self.assertNotEqual(text, self.sample(*drawn, "--top-k", 300, "--top-p", 1))

    def test_drawn_text_depends_on_the_seed_alone(self):
        self.trained()
        drawn = [self.sample("--temperature", 1, "--tokens", 12, "--seed", seed) for seed in (1, 2, 3)]
        self.assertEqual(3, len(set(drawn)), drawn)
        self.assertEqual(drawn[0], self.sample("--temperature", 1, "--tokens", 12, "--seed", 1))

    def test_prompts_longer_than_the_model_sees(self):
        self.trained()
        long = "alpha beta gamma " * 40
        result = self.command(product.ECHELON, "sample", "run", "--prompt", long, "--tokens", 4)
        self.assertTrue(result.out.startswith(long.strip()), result.out)
        self.assertRegex(result.err, r"a prompt has \d+ tokens; with --tokens 4 the model takes its last \d+\n")

    def test_validation_measures_each_source_as_a_run_on_it_alone_does(self):
        self.prepare()
        (self.folder / "more").mkdir()
        (self.folder / "more/a.txt").write_text(" ".join(reversed(product.WORDS)) * 60)
        self.command(product.ECHELON, "prepare", "more", "-o", "other", "--tokenizer", "data/tokenizer.model",
                     "--validation-fraction", 0.5)
        files = {"one": "data/valid.tok", "two": "other/valid.tok"}
        validating = {**product.ON_TOKENS, "train.validate_every_steps": 2, "data.validation.batches": 0}
        alone = {}
        for name, path in files.items():
            self.train(self.recipe(**{**validating, "run.dir": name, "data.validation.path": path}))
            alone[name] = [line["validation_loss"] for line in self.metrics(name) if "validation_loss" in line]
        for ranks in (1, 2):
            both = f"both-{ranks}"
            self.train(self.recipe(**{**validating, "run.dir": both, **{f"data.validation.sources.{name}": path for name, path
                                                                       in files.items()}}), ranks=ranks)
            lines = [line for line in self.metrics(both) if "validation_loss" in line]
            self.assertEqual(2, len(lines))
            for at, line in enumerate(lines):
                for name in files:
                    self.assertAlmostEqual(alone[name][at], line[f"validation_loss/{name}"], delta=1e-9 if ranks == 1 else 1e-4)
                self.assertLess(min(line[f"validation_loss/{name}"] for name in files), line["validation_loss"])
                self.assertGreater(max(line[f"validation_loss/{name}"] for name in files), line["validation_loss"])
        self.command(product.ECHELON, "metrics", "both-1", "--to", "mlflow", "-o", "store")
        self.assertEqual({"one", "two"}, {path.name for path in self.folder.glob("store/*/*/metrics/validation_loss_of/*")})

    def test_validation_loss_is_in_the_metrics_and_the_best_is_noted(self):
        self.trained(ranks=2)
        validated = {line["step"]: line["validation_loss"] for line in self.metrics() if "validation_loss" in line}
        self.assertEqual([10, 20, 30], list(validated))
        best = json.loads((self.folder / "run" / "best_validation.json").read_text())
        self.assertEqual({"step": min(validated, key=validated.get), "validation_loss": min(validated.values())}, best)


if __name__ == "__main__":
    product.main()
