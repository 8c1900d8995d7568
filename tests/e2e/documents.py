"""Every command in README.md and docs/*.md, tried: what a reader types must not be refused.

A block of commands is a fence with the info word `sh`, or `console` where output stands below lines that begin with
`$ `; `needs-...` behind it names what a test machine has not (docs/contributing.md#commands-in-documents). Commands of
ours run in a folder with the data and runs that the documents speak of, in small. A few are run in another way:

  train       is validated for the number of ranks that the command line gives it: training takes too long here
  prove       likewise
  submit      writes its script (--print) and submits nothing
  in a block that needs something, a command may also end with exit code 3, environment

Commands in running text are held against --help: the command exists and has these options.
"""
import collections
import json
import os
import pathlib
import re
import shlex
import shutil

import product
import chat_folder
import summaries

NEEDS = {"needs-network", "needs-root", "needs-time", "needs-slurm", "needs-docker", "needs-aws", "needs-device"}
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.S | re.M)
INLINE = re.compile(r"`((?:echelon|echelon-ckpt) [a-z][^`]*)`")
OURS = re.compile(r"^(?:[^-=][^=]*bin/)?(echelon|echelon-ckpt)$")
STARTERS = {"srun", "sbatch", "mpirun", "exec"}
GLUE = {"cd", "export", "eval", "mkdir", "tail"}  # of the shell, around commands of ours
CHAINS = {"&&", "||", ";", "|", "&"}
STEP = re.compile(r"step-\d{9}\.[0-9a-f]{8}")
Command = collections.namedtuple("Command", "page line text needs")


def blocks(page, text):
    """The commands of a page's fences, continued lines joined; findings on fences that say nothing of themselves."""
    for fence in FENCE.finditer(text):
        line = text[:fence.start()].count("\n") + 1
        kind, *needs = fence[1].split() or [""]
        if not kind:
            raise AssertionError(f"{page}:{line}: this block says not what it is: sh, console, text, yaml ...")
        if kind not in ("sh", "console"):
            continue
        if unknown := set(needs) - NEEDS:
            raise AssertionError(f"{page}:{line}: {', '.join(unknown)} is none of {', '.join(sorted(NEEDS))}")
        at = line
        for whole in re.findall(r"(?:[^\n]*\\\n)*[^\n]*\n", fence[2]):
            at, begins = at + whole.count("\n"), at + 1
            joined = whole.replace("\\\n", " ").strip()
            if kind == "console":
                if not joined.startswith("$ "):
                    continue
                joined = joined[2:]
            if joined and not joined.startswith("#"):
                yield Command(page, begins, joined, needs)


def parts_of(text):
    """The words of each command of a line: those of pipes and chains apart, redirections left out."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|>")
    lexer.whitespace_split = True
    words, skip = [], False
    for word in lexer:
        if word in CHAINS:
            yield words
            words = []
        elif word == ">":
            skip = True
        elif skip:
            skip = False
        else:
            words.append(word)
    yield words


def variants(text):
    """A synopsis "verify [--quick | --deep] [--json] X" as the commands it stands for: without any of the options, and
    with each of them alone."""
    text = re.sub(r"\s#\s.*", "", text)
    groups = re.findall(r" \[([^\]]+)\]", text)
    plain = re.sub(r" \[[^\]]+\]", "", text)
    choices = [choice.strip() for group in groups for choice in group.split("|")]
    return [plain] + [f"{plain} {choice}" for choice in choices]


def ranks_of(words):
    """Nodes times tasks on each, as srun and sbatch are told."""
    numbers = {"nodes": 1, "ntasks-per-node": 1}
    words = [re.sub(r"^-N", "--nodes", word) for word in words]
    for at, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if name in numbers:
            numbers[name] = int(value if equals else words[at + 1])
        elif name.startswith("nodes") and name[5:].isdigit():
            numbers["nodes"] = int(name[5:])
    return numbers["nodes"] * numbers["ntasks-per-node"]


def ours(words):
    """(program, its arguments, ranks that start it) of a command that ends in one of ours, or None."""
    if "docker" in words[:1] and "run" in words:
        image = next((at for at, word in enumerate(words) if re.match(r"echelon:\w+$", word)), len(words))
        return ("echelon", words[image + 1:], 1) if words[image + 1:] else None
    for at, word in enumerate(words):
        if (match := OURS.match(word)) and (at == 0 or words[0] in STARTERS):
            return match[1], words[at + 1:], ranks_of(words[:at])
        if word.endswith("train.sbatch"):
            return "echelon", ["train", *words[at + 1:]], ranks_of(words[:at])
    return None


def zstd(data):
    """At most 255 bytes in a frame of one block, uncompressed."""
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(data)]) + (len(data) << 3 | 1).to_bytes(3, "little") + data


class Tests(product.Case):
    def setUp(self):
        super().setUp()
        self.done = collections.Counter()
        self.findings, self.skipped = [], collections.defaultdict(list)
        self.help = {"echelon": self.commands_of(product.ECHELON), "echelon-ckpt": self.commands_of(product.CKPT)}

    # -- the folder in which a reader sits

    def make_folder(self):
        for name in ("recipes", "cluster", "docker", "docs", "tests", "tools", "make.sh", "CMakePresets.json"):
            (self.folder / name).symlink_to(product.TOP / name)
        (self.folder / "echelon").symlink_to(product.TOP)
        (self.folder / "fsx" / "runs").mkdir(parents=True)
        (self.folder / "fsx" / "images").mkdir()
        for image in ("echelon.sif", "images/echelon.sif", "images/echelon.sqsh"):
            (self.folder / "fsx" / image).write_text("an image")
        (self.folder / "texts").mkdir()
        (self.folder / "texts" / "a.txt").write_text("alpha beta gamma\n" * 50)
        (self.folder / "src").mkdir()
        (self.folder / "src" / "a.py").write_text("print('alpha')\n" * 50)
        (self.folder / "articles.txt").write_text(summaries.SOURCE + "\n")
        (self.folder / "tasks").mkdir()
        (self.folder / "tasks/questions.jsonl").write_text('{"context": "alpha", "choices": ["beta", "a"], "answer": 0}\n')
        (self.folder / "tasks/gsm8k.jsonl").write_text('{"prompt": "alpha", "answers": ["2"]}\n')
        (self.folder / "tasks/gsm8k_examples.txt").write_text("beta #### 1\n")
        self.recipe(**{"train.micro_batch_size": 1, "train.global_batch_size": 96})
        (self.folder / "data").mkdir()

    def make_runs(self):
        """runs/quickstart, smoke, x, y, llama-8b of one model, runs/t5 of another, runs/lora-smoke with adapters, runs/tuned with those
        of hf on chats, as peft-adapter has them; A and B; what the corpora are made of."""
        self.prepare("small")
        (self.folder / "spiece.model").write_bytes((self.folder / "small/tokenizer.model").read_bytes())
        (self.folder / "tokenizer.json").write_bytes((self.folder / "spiece.model").read_bytes())
        (self.folder / "corpus").mkdir()
        (self.folder / "corpus" / "a.jsonl.zst").write_bytes(zstd(b'{"text": "alpha beta gamma"}\n' * 8))
        base = {"model.vocab_size": 262, "model.max_positions": 256, "train.steps": 1, "schedule.warmup_steps": 0}
        self.train(self.recipe("base.yaml", **base), "run.dir=base")
        self.command(product.CKPT, "export", "base", "--output", "hf")
        chat_folder.write(self.folder / "hf")
        text = (product.TOP / "docs/fine_tuning.md").read_text()
        (self.folder / "tune.yaml").write_text(text.split("```yaml\n")[1].split("```")[0])
        chat_folder.write_chats(self.folder / "chats.jsonl", [[("user", "alpha?"), ("assistant", "beta")]] * 9)
        (self.folder / "lora.yml").write_text("base_model: org/hf\nadapter: lora\nsequence_len: 256\n")
        text = (product.TOP / "docs/preference.md").read_text()
        (self.folder / "prefer.yaml").write_text(text.split("```yaml\n")[1].split("```")[0])
        (self.folder / "prefs.jsonl").write_text('{"prompt": "alpha?", "chosen": "beta", "rejected": "no"}\n' * 9)
        (self.folder / "sharegpt.jsonl").write_text(
            '{"conversations": [{"from": "human", "value": "alpha"}, {"from": "gpt", "value": "beta"}]}\n' * 9)
        (self.folder / "alpaca.jsonl").write_text('{"instruction": "alpha", "input": "beta", "output": "gamma"}\n' * 9)
        (self.folder / "wikihowAll.csv").write_text("headline,title,text\n" + "alpha,a,alpha beta gamma\n" * 9)
        tokens = {**product.ON_TOKENS, "data.path": "small/train.tok", "checkpoint.every_steps": 2,
                  "model.max_positions": 256, "optim.ema_decay": 0.9}
        self.train(self.recipe("small.yaml", **tokens), "run.dir=runs/x")
        (self.folder / "data/digits.csv.gz").symlink_to(os.environ["ECHELON_DIGITS"])
        for name in ("runs/quickstart", "runs/smoke", "runs/y", "runs/llama-8b", "A", "B"):
            shutil.copytree(self.folder / "runs/x", self.folder / name)
        pairs = self.folder / "pairs"
        pairs.mkdir()
        rows = [f"{summaries.SOURCE},{summaries.TARGET}"] * 9
        (pairs / "a.csv").write_text("\n".join(["text,headline", *rows]) + "\n")
        self.command(product.ECHELON, "prepare", "pairs", "--input", "text", "--target", "headline", "-o", "t5",
                     "--train-tokenizer", 300)
        t5 = {**summaries.T5, "data.path": "t5/train.tok", "train.steps": 3, "train.validate_every_steps": 0}
        t5 = {name: value for name, value in t5.items() if not name.startswith("data.validation")}
        self.train(self.recipe("t5.yaml", **t5), "run.dir=runs/t5")
        self.train(product.TOP / "recipes/lora_smoke.yaml", "run.dir=runs/lora-smoke", "train.steps=2", "schedule.warmup_steps=1")
        self.command(product.ECHELON, "prepare", "chats.jsonl", "--format", "chat", "--tokenizer", "hf", "-o", "data/chats")
        self.command(product.ECHELON, "prepare", "prefs.jsonl", "--format", "preference", "--tokenizer", "hf", "-o", "data/prefs")
        self.train("tune.yaml", "train.steps=1", "schedule.warmup_steps=0")
        self.command(product.CKPT, "export", "runs/tuned", "--output", "peft-adapter")

    # -- one command

    def run_ours(self, command, program, arguments, ranks):
        """Runs a command of ours, or what stands for it, and notes what is wrong."""
        how = "run"
        arguments = [re.sub(r"(^|[=:])/fsx\b", rf"\1{self.folder}/fsx", word) for word in arguments]
        if arguments[:1] in (["train"], ["prove"]):
            how = "validated"
            rest = arguments[1:]
            if "--ranks" in rest:
                at = rest.index("--ranks")
                ranks = int(rest[at + 1])
                del rest[at:at + 2]
            if "--profile" in rest:  # of steps that are not trained
                at = rest.index("--profile")
                del rest[at:at + 2]
            arguments = ["validate", *rest, "--ranks", ranks]
        elif arguments[:1] == ["submit"]:
            how = "script written"
            arguments = [word for word in arguments if word not in ("--wait", "--test-only", "--print")] + ["--print"]
            if "--gpus-per-node" in arguments:  # the recipe at hand is for CPUs
                arguments += ["train.device=auto"]
        for at, word in enumerate(arguments):
            if word in ("--output", "-o"):
                self.remove(self.folder / arguments[at + 1])
        arguments = [part for word in map(str, arguments) for part in self.expanded(word)]
        allowed = {0, 3} if command.needs else {0}
        allowed |= {1} if arguments[:1] == ["diff"] else set()
        binary = product.ECHELON if program == "echelon" else product.CKPT
        ran = self.command(binary, *arguments, code=None)
        self.done[how] += 1
        if ran.code not in allowed:
            self.findings.append(f"{command.page}:{command.line}: {command.text}\n    tried: {program} "
                                 f"{shlex.join(arguments)}\n    exit {ran.code}: {ran.err.strip()[-600:]}")

    def remove(self, path):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)

    def expanded(self, word):
        """What the shell makes of a word; a step folder of a document's is the newest of the run that is here."""
        path = pathlib.PurePath(word)
        pattern = STEP.sub("step-*", word) if STEP.fullmatch(path.name) else word
        found = sorted(self.folder.glob(pattern)) if "*" in pattern and not path.is_absolute() else []
        found = [str(path.relative_to(self.folder)) for path in found]
        return found[-1:] if pattern != word else found or [word]

    def check_foreign(self, command, words):
        """A command that is not one of ours: what can be said without running it."""
        name = words[0]
        if name == "./make.sh":
            known = re.findall(r"^  ([a-z-]+) ", self.command("./make.sh", "help").out, re.M)
            # `build` takes presets and targets of CMake, `bench` names (tests/e2e/benchmarks.py knows them); else several
            # commands stand in a row.
            named = words[1:2] if words[1] in ("bench", "build") else words[1:]
            unknown = [word for word in named if word not in known and word.islower()]
            self.done["held against make.sh help"] += 1
            if unknown:
                self.findings.append(f"{command.page}:{command.line}: make.sh has no command {', '.join(unknown)}")
            return
        if name == "python3" and words[1].startswith("tests/scripts/") and not command.needs:
            self.command(*words)
            self.done["scripts run"] += 1
            return
        files = [word for word in words if re.match(r"(cluster|docker|recipes|tests|docs)/[\w./-]+$", word)]
        for word in files:
            if not (product.TOP / word).exists():
                self.findings.append(f"{command.page}:{command.line}: there is no {word}")
        if command.needs:
            self.skipped[command.needs[0]].append(command)
        elif name not in GLUE:
            self.findings.append(f"{command.page}:{command.line}: {name} is no command of ours; name what it needs "
                                 "behind the block's `sh`, such as needs-network")

    def check(self, command):
        for text in variants(command.text) if OURS.match(command.text.split()[0]) else [command.text]:
            for words in filter(None, parts_of(text)):
                words = words[1:] if words[0] == "sudo" else words
                if found := ours(words):
                    self.run_ours(command, *found)
                else:
                    self.check_foreign(command, words)

    # -- commands in running text

    def check_inline(self, page, text):
        for match in INLINE.finditer(FENCE.sub("", text)):
            program, *words = match[1].replace("\\|", "|").split()
            known = self.help[program]
            path = max((tuple(words[:n]) for n in range(3) if tuple(words[:n]) in known), key=len)
            shown = known[path]
            options = {re.split(r"[=\]]", word)[0] for word in words if word.startswith("--")}
            unknown = options - set(re.findall(r"--[a-z0-9-]+", shown)) - {"--help", "--version"}
            self.done["of running text held against --help"] += 1
            if not path or unknown:
                self.findings.append(f"{page}: `{match[1]}`: {', '.join(unknown) or words[0]} does not exist")

    # -- tests

    def test_every_command_of_the_documents_is_taken(self):
        self.make_folder()
        self.make_runs()
        for page in [product.TOP / "README.md", *sorted((product.TOP / "docs").glob("*.md"))]:
            name, text = page.relative_to(product.TOP), page.read_text()
            for command in blocks(name, text):
                self.check(command)
            self.check_inline(name, text)
        print("\n".join(f"{count:4} {how}" for how, count in self.done.items()))
        for need, commands in sorted(self.skipped.items()):
            print(f"{len(commands):4} not run: {need}")
            print("\n".join(f"       {command.page}:{command.line}: {command.text[:90]}" for command in commands))
        self.assertEqual([], self.findings, "\n" + "\n".join(self.findings))
        self.assertGreater(self.done["run"], 40, "commands are no longer found")

    def test_the_table_of_models_says_what_the_programs_do(self):
        """Of docs/models.md: the kinds, their smallest and largest preset, and what each can."""
        presets = collections.defaultdict(list)
        for name, kind, count in re.findall(r"(?m)^\| `(\w+)` \| `(\w+)` \| ([\d,]+) \|", (product.TOP / "docs/recipe.md").read_text()):
            presets[kind].append((int(count.replace(",", "")), name))
        (self.folder / "config.json").write_text('{"model_type": "none"}')
        (self.folder / "model.safetensors").write_bytes(bytes([2, 0, 0, 0, 0, 0, 0, 0]) + b"{}")
        refused = self.command(product.CKPT, "import", ".", "--output", "out", code=5).err
        imported = refused.split("supported types: ")[1].strip().split(", ")
        kinds = json.loads(self.command(product.ECHELON, "validate", "--schema").out)["properties"]["model"]["properties"]["kind"]
        data = {"tokens": "synthetic_tokens", "pairs": "synthetic_pairs", "images": "synthetic_images"}
        rows = re.findall(r"(?m)^\| `(\w+)` \| [^|]+ \| ([^|]+) \| (\w+) \| (yes|no) \| (yes|no) \|$",
                          (product.TOP / "docs/models.md").read_text())
        self.assertEqual(kinds["enum"], [kind for kind, *_ in rows])
        for kind, sizes, trains_on, lora, folder in rows:
            with self.subTest(kind):
                ends = list(dict.fromkeys((min(presets[kind])[1], max(presets[kind])[1])))
                self.assertEqual(" to ".join(f"`{name}`" for name in ends), sizes)
                (self.folder / "kind.yaml").write_text(f"model: {{preset: {ends[0]}}}\ndata: {{kind: {data[trains_on]}}}\n")
                self.command(product.ECHELON, "validate", "kind.yaml", code=0)
                self.command(product.ECHELON, "validate", "kind.yaml", "lora.rank=8", code=0 if lora == "yes" else 2)
                self.assertEqual(kind in imported, folder == "yes")

    def test_a_wrong_command_is_found(self):
        self.make_folder()
        wrong = """
```sh
echelon plan recipes/quickstart.yaml --nodes 2 --tasks-per-node 8
echelon-ckpt ls recipes [--no-such-option]
./make.sh frobnicate
cluster/no/such.sh
```
```sh needs-slurm
srun -N2 --ntasks-per-node=4 --mpi=pmix \\
  build/release/bin/echelon train recipes/quickstart.yaml
echelon doctor clutser
```
"""
        for command in blocks("wrong.md", wrong):
            self.check(command)
        self.check_inline("wrong.md", "Use `echelon train RECIPE --gpus 4` or `echelon trian RECIPE`.")
        places = [re.match(r"wrong\.md(?::\d+)?", finding)[0] for finding in self.findings]
        self.assertEqual(["wrong.md:3", "wrong.md:4", "wrong.md:5", "wrong.md:6", "wrong.md:6", "wrong.md:9",
                          "wrong.md:11", "wrong.md", "wrong.md"], places, "\n".join(self.findings))
        with self.assertRaises(AssertionError):
            list(blocks("wrong.md", "```\necho\n```\n"))


if __name__ == "__main__":
    product.main()
