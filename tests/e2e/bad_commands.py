"""Command lines that cannot be meant: exit 2 and one line that says what was expected."""
import json
import os
import pathlib
import re
import subprocess

import product

# Cases of the golden table.
REFUSED = {
    "no_command": (product.ECHELON,),
    "unknown_command": (product.ECHELON, "trian", "recipe.yaml"),
    "unknown_option": (product.ECHELON, "train", "recipe.yaml", "--gpus", 4),
    "recipe_not_named": (product.ECHELON, "train"),
    "override_of_no_key": (product.ECHELON, "train", "recipe.yaml", "optim.learning_rate=1"),
    "override_without_a_value": (product.ECHELON, "train", "recipe.yaml", "optim.lr"),
    "no_ranks": (product.ECHELON, "train", "recipe.yaml", "--ranks", 0),
    "ranks_are_no_number": (product.ECHELON, "train", "recipe.yaml", "--ranks", "two"),
    "sample_without_a_prompt": (product.ECHELON, "sample", "run"),
    "sample_of_no_tokens": (product.ECHELON, "sample", "run", "--prompt", "one", "--tokens", 0),
    "sample_of_prompts_given_twice": (product.ECHELON, "sample", "run", "--prompt", "one", "--prompt-file", "two.txt"),
    "sample_of_drawn_beams": (product.ECHELON, "sample", "run", "--prompt", "one", "--beams", 2, "--temperature", 1),
    "sample_of_limits_on_what_is_not_drawn": (product.ECHELON, "sample", "run", "--prompt", "one", "--top-k", 5),
    "sample_at_a_negative_temperature": (product.ECHELON, "sample", "run", "--prompt", "one", "--temperature", -1),
    "sample_on_no_ranks": (product.ECHELON, "sample", "run", "--prompt", "one", "--ranks", 0),
    "sample_on_ranks_that_are_no_number": (product.ECHELON, "sample", "run", "--prompt", "one", "--ranks", "two"),
    "prepare_without_an_output": (product.ECHELON, "prepare", "source"),
    "prepare_of_an_unknown_format": (product.ECHELON, "prepare", "source", "-o", "data", "--format", "xml", "--train-tokenizer", 300),
    "recipes_show_of_none": (product.ECHELON, "recipes", "show", "smok"),
    "tool_unknown_command": (product.CKPT, "verfy", "run"),
    "tool_unknown_option": (product.CKPT, "verify", "run", "--fast"),
    "tool_unknown_target": (product.CKPT, "consolidate", "run", "--to", "onnx", "--output", "out"),
}

# Commands with --json, each with its exit codes and what it is given here; {} is a checkpoint. Where a report takes seconds, the
# tests of the command read it.
JSON = {
    (product.ECHELON, "validate"): ({0}, ["recipe.yaml"]),
    (product.ECHELON, "plan"): ({0}, ["recipe.yaml"]),
    (product.ECHELON, "prove"): ({2}, ["recipe.yaml", "data.kind=preference"]),
    (product.ECHELON, "recipes", "diff"): ({0}, ["smoke", "recipe.yaml"]),
    (product.ECHELON, "prepare"): ({0}, ["data-text", "-o", "again", "--train-tokenizer", 320]),
    (product.ECHELON, "evaluate"): ({0}, ["run", "--task", "questions.jsonl"]),
    (product.ECHELON, "runs"): ({0}, ["."]),
    (product.ECHELON, "doctor", "recipe"): ({0, 3}, ["recipe.yaml"]),
    (product.ECHELON, "doctor", "cluster"): ({0, 3}, []),
    (product.ECHELON, "doctor", "install"): ({0, 3}, []),
    (product.ECHELON, "doctor", "job"): ({2}, ["--slow", 2]),
    (product.ECHELON, "doctor", "bootstrap"): ({0}, []),
    (product.CKPT, "ls"): ({0}, ["run"]),
    (product.CKPT, "inspect"): ({0}, ["run"]),
    (product.CKPT, "verify"): ({0}, ["run"]),
    (product.CKPT, "salvage"): ({0}, ["{}"]),
    (product.CKPT, "diff"): ({0}, ["run", "run"]),
    (product.CKPT, "prune"): ({0}, ["run"]),
    (product.CKPT, "gc"): ({0}, ["run"]),
}
LISTS = (("runs",), ("recipes", "diff"), ("ls",))  # all other commands print an object


class Tests(product.Case):
    def usage(self, *arguments, program=product.ECHELON, **more):
        self.expect(2, program, *arguments, **more)

    def test_refused(self):
        self.recipe()
        for case, words in REFUSED.items():
            with self.subTest(case):
                self.expect(2, *words, case=case)

    def test_words_of_other_programs_get_ours(self):
        self.recipe()
        for words, hint in (
                (["export", "run"], "no command 'export'; 'echelon-ckpt export' does that"),
                (["train", "recipe.yaml", "--optim.lr=1e-3"], "keys are given without dashes: optim.lr=1e-3; try 'echelon train --help'"),
                (["train", "recipe.yaml", "-n", "4"], "the number of local ranks is --ranks N; try "),
                (["train", "--nproc_per_node=8", "recipe.yaml"], "the number of local ranks is --ranks N; try "),
                (["submit", "recipe.yaml", "-n", "8"], "the number of ranks is --nodes N times --tasks-per-node M; try ")):
            self.assertIn(hint, self.command(product.ECHELON, *words, code=2).err)

    def test_unknown_command_of_a_command(self):
        said = self.command(product.ECHELON, "recipes", "shwo", "smoke", code=2).err
        self.assertEqual("echelon: no command 'recipes shwo'; did you mean 'recipes show'?\n", said)
        said = self.command(product.ECHELON, "doctor", code=2).err
        self.assertRegex(said, "^echelon: doctor needs a command; there are recipe, .*; try 'echelon doctor --help'\n$")

    def test_numbers_are_read_as_those_of_recipes(self):
        tried = 0
        for program in (product.ECHELON, product.CKPT):
            for path, text in self.commands_of(program).items():
                for option in re.findall(r"^  (?:-\w,)*(--[a-z0-9-]+)(?:,--[a-z0-9-]+)* (?:INT|UINT|FLOAT)\b", text, re.M):
                    tried += 1
                    for value in ("nan", "100000000000000000000000e300", "0x10", "1_0"):
                        result = self.command(program, *path, f"{option}={value}", code=2)
                        self.assertRegex(result.err, f"{option}: '{value}' (is|has|cannot)")
        self.assertGreater(tried, 25, "options with numbers are no longer found")
        self.assertIn("'-1' is below 0", self.command(product.ECHELON, "sample", "x", "--seed=-1", code=2).err)

    def test_patterns_that_name_nothing(self):
        """What training refuses when the model is there, the commands that only look refuse too."""
        lists = {"shard.wrap.exclude": ["shard.wrap.policy=size_based"], "shard.wrap.modules": ["shard.wrap.policy=modules"],
                 "activation_checkpointing.modules": ["activation_checkpointing.policy=full"], "optim.no_decay": [],
                 "optim.muon.adamw": ["optim.kind=muon"],
                 "lora.modules": ["lora.rank=2"], "lora.also_train": ["lora.rank=2"]}
        maps = {"shard.reshard_overrides": "true", "precision.overrides": "fp32", "optim.lr_factors": "0.5"}
        reference = self.command(product.ECHELON, "validate", "--reference").out
        self.assertEqual({*lists, *maps}, set(re.findall(r"^\| `([a-z_.]+)` \| (?:list|map) \|.*patterns", reference, re.M)))
        recipe = self.recipe()
        for key, more in [*lists.items(), *((key, []) for key in maps)]:
            value = '["*.nowhere"]' if key in lists else f'{{"*.nowhere": {maps[key]}}}'
            words = [recipe, f"{key}={value}", *more]
            said = f"{key}: pattern '*.nowhere' matches no "
            self.assertRegex(self.command(product.ECHELON, "validate", *words, code=2).err, "command line: .*" + re.escape(said))
            if key in ("optim.no_decay", "precision.overrides"):
                self.assertIn(said, self.command(product.ECHELON, "train", *words, code=2).err)
                self.assertIn(said, self.command(product.ECHELON, "plan", *words, code=2).err)
                self.assertIn(said, self.command(product.ECHELON, "submit", "--print", *words, code=2).err)
                self.assertIn(said, self.command(product.ECHELON, "doctor", "recipe", *words, code=3).out)
        self.assertFalse((self.folder / "run" / "submissions").exists())
        both = self.command(product.ECHELON, "validate", recipe, "--json", 'optim.no_decay=["a", "b"]', code=2)
        self.assertEqual([2, 2], [error["code"] for error in json.loads(both.out)["errors"]])

    def test_the_documents_example_of_patterns(self):
        text = (product.TOP / "docs" / "recipe.md").read_text()
        example = re.search(r"```yaml\n(optim:\n  no_decay.*?)```", text, re.S)[1]
        base = self.recipe("base.yaml")
        (self.folder / "recipe.yaml").write_text(f"include: {base}\n{example}")
        self.command(product.ECHELON, "validate", "recipe.yaml")

    def test_failures_for_programs(self):
        for program, words in ((product.ECHELON, ["prepare", "--json", "nowhere", "-o", "data", "--train-tokenizer", 300]),
                               (product.ECHELON, ["validate", "--json", "--no-such-option"]),
                               (product.ECHELON, ["doctor", "clutser", "--json"]),
                               (product.CKPT, ["ls", "nowhere", "--json"])):
            result = self.command(program, *words, code=4 if words[0] == "prepare" else 2)
            error = json.loads(result.out)["error"]
            self.assertEqual(result.code, error["code"])
            self.assertEqual(f"{pathlib.Path(program).name}: {error['message']}\n", result.err)

    def test_json_is_one_value_of_any_command(self):
        have = {(program, *path) for program in (product.ECHELON, product.CKPT)
                for path, text in self.commands_of(program).items() if "--json" in text}
        self.assertEqual(have, set(JSON))
        self.prepare()
        self.train(self.recipe(**{**product.ON_TOKENS, "train.steps": 3}))
        (self.folder / "questions.jsonl").write_text('{"context": "alpha", "choices": ["beta", "mu"], "answer": 1}\n')

        def value(command, codes):
            ran = self.command(*(str(word).format(self.checkpoints()[-1]) for word in command), "--json", code=None)
            self.assertIn(ran.code, codes, str(ran))
            return json.loads(ran.out)

        for command, (codes, words) in JSON.items():
            self.assertIsInstance(value([*command, *words], codes), list if command[1:] in LISTS else dict)
            self.assertEqual(["error"], list(value([*command, "--no-such-option"], {2})))
        # Found by the engine, which reports its own errors, and by that of a rank.
        nowhere = [product.ECHELON, "evaluate", "nowhere", "--task", "questions.jsonl"]
        self.assertEqual(value(nowhere, {5}), value([*nowhere, "--ranks", 2], {5}))

    def test_recipe_missing(self):
        self.usage("train", "recipe.yaml")

    def test_recipe_is_a_folder(self):
        (self.folder / "recipe.yaml").mkdir()
        self.usage("train", "recipe.yaml")

    def test_ranks_inside_a_step(self):
        # A rank that mpirun started must not start ranks of its own.
        self.recipe()
        self.expect(2, *product.MPIRUN, "-n", 1, product.ECHELON, "train", "recipe.yaml",
                    "--ranks", 2)

    def test_sample_on_ranks_inside_a_step(self):
        self.expect(2, *product.MPIRUN, "-n", 2, product.ECHELON, "sample",
                    "run", "--prompt", "one", "--ranks", 2)

    def test_metrics_of_what_has_none(self):
        (self.folder / "empty").mkdir()
        (self.folder / "foreign").mkdir()
        (self.folder / "foreign" / "metrics.jsonl").write_text("\x00[" * 1000 + '\n{"step": "1"}\n' + "{" * (3 << 20))
        (self.folder / "pipe").mkdir()
        os.mkfifo(self.folder / "pipe" / "metrics.jsonl")
        for run in ("nowhere", "empty", "foreign", "pipe"):
            self.usage("metrics", run, "--to", "csv")
        self.usage("metrics", "foreign", "--to", "tensorboard", "-o", "board")
        self.usage("metrics", "foreign", "--to", "xml")
        self.usage("metrics", "foreign")
        (self.folder / "foreign" / "metrics.jsonl").write_text('{"step": 1, "loss": 2}\nno\n')
        self.usage("metrics", "foreign", "--to", "csv", "-o", "empty")
        for to in ("csv", "prometheus"):
            self.assertIn("is what the command reads", self.command(
                product.ECHELON, "metrics", "foreign", "--to", to, "-o", "foreign/metrics.jsonl", code=2).err)
        for to in ("tensorboard", "wandb", "mlflow"):
            self.usage("metrics", "foreign", "--to", to, "-o", "foreign/metrics.jsonl")
        result = self.command(product.ECHELON, "metrics", "foreign", "--to", "csv")
        self.assertEqual("step,loss\n1,2\n", result.out)
        self.assertIn("1 lines of 'foreign/metrics.jsonl' are no metrics and were left out", result.err)
        self.assertEqual(["empty", "foreign", "pipe"], sorted(os.listdir(self.folder)))

    def test_help_and_version_are_0(self):
        for program in (product.ECHELON, product.CKPT):
            for option in ("--help", "--version"):
                result = self.command(program, option)
                self.assertEqual("", result.err)
                self.assertNotEqual("", result.out)

    def test_what_cannot_be_printed_is_an_error(self):
        self.prepare()
        self.train(self.recipe(**{**product.ON_TOKENS, "train.steps": 3}))
        commands = [[product.ECHELON, *words] for words in (
            ["--version"], ["train", "--help"], ["recipes", "ls"], ["recipes", "show", "smoke"],
            ["validate", "recipe.yaml"], ["validate", "recipe.yaml", "--json"], ["validate", "--schema"],
            ["plan", "recipe.yaml"], ["sample", "run", "--prompt", "alpha", "--tokens", 2],
            ["doctor", "recipe", "recipe.yaml"], ["metrics", "run", "--to", "csv"], ["metrics", "run", "--to", "prometheus"],
            ["report", "run"], ["watch", "run"],
            ["prepare", "data-text", "-o", "data", "--train-tokenizer", 320, "--validation-fraction", 0.3])]
        commands += [[product.CKPT, *words] for words in (
            ["--version"], ["--help"], ["ls", "run"], ["ls", "run", "--json"], ["inspect", "run"], ["verify", "run"],
            ["diff", "run", "run"], ["prune", "run"], ["gc", "run"])]
        for command in commands:
            command = [str(word) for word in command]
            for taken, code in (("/dev/null", 0), ("/dev/full", 3)):
                with open(taken, "w") as out:
                    ran = subprocess.run(command, cwd=self.folder, env=product.environment(), stdout=out, text=True,
                                         stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=product.WAIT_S)
                if command[1] == "doctor" and taken == "/dev/null":
                    continue  # what it finds is this machine's
                self.assertEqual(code, ran.returncode, f"{command} > {taken}\n{ran.stderr}")
                if code:
                    self.assertIn("cannot write to standard output", ran.stderr, command)

    def test_json_is_json_whatever_a_path_holds(self):
        self.train(self.recipe(**{"train.steps": 4, "checkpoint.every_steps": 1}))
        run = os.fsencode(self.folder) + b"/run-\xff-\x1b[2J"
        os.rename(self.folder / "run", run)
        os.mkdir(run + b"/checkpoints/old\xff.partial-0123abcd")
        os.utime(run + b"/checkpoints/old\xff.partial-0123abcd", (0, 0))
        tool = os.fsencode(product.CKPT)
        for words in ([b"ls"], [b"inspect"], [b"verify"], [b"gc"], [b"prune"], [b"prune", b"--yes", b"--keep-last", b"2"],
                      [b"gc", b"--yes"]):
            for json_flag in ([b"--json"], []):
                ran = subprocess.run([tool, *words, *json_flag, run], env=product.environment(), capture_output=True,
                                     stdin=subprocess.DEVNULL, timeout=product.WAIT_S)
                self.assertEqual(0, ran.returncode, (words, ran.stderr))
                self.assertNotIn(b"\x1b", ran.stdout)
                ran.stdout.decode()
                if json_flag:
                    json.loads(ran.stdout)
        self.assertEqual(2, sum(name.startswith(b"step-") for name in os.listdir(run + b"/checkpoints")))
        ran = subprocess.run([tool, b"ls", run + b"-none"], env=product.environment(), capture_output=True)
        self.assertEqual(2, ran.returncode, ran.stderr)
        self.assertIn("run-\\xff-\\x1b[2J-none", ran.stderr.decode())


if __name__ == "__main__":
    product.main()
