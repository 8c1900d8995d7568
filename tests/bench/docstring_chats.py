"""A small Llama that has read Python sources learns to write docstrings when it is asked for them: all of its weights, and with
adapters, beside the base without either.

Sources are those of the torch package of .venv. One file in ten is held out whole: neither the base nor the fine-tuning has
seen it. Each stage is passed over when its result exists, so a second call takes up a stopped one.
"""
import argparse
import ast
import json
import pathlib
import re
import subprocess
import sys
import warnings
import zlib

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import byte_level
import chat_folder
from docstring_summaries import scores

VOCABULARY = 4096
MOST_CHARACTERS = 450  # of a function's source: nearly all conversations then fit the 256 tokens of a sample
ASK = "Write the docstring of this function.\n"
BASE = ["recipes/quickstart.yaml", "model.hidden_size=256", "model.intermediate_size=768", "model.layers=6", "model.heads=8",
        "schedule.warmup_steps=100", "train.validate_every_steps=400"]  # of 5.6 M parameters
TUNING = {
    "run": {"seed": 1},
    "data": {"kind": "chat", "seq_len": 256, "on_bad_record": "skip", "max_bad_records": 700},
    "optim": {"betas": [0.9, 0.95], "weight_decay": 0.0},
    "schedule": {"kind": "warmup_cosine", "warmup_steps": 20},
    "train": {"micro_batch_size": 4, "global_batch_size": 16, "clip_grad_norm": 1.0},
    "precision": {"preset": "bf16_fp32_reduce"},
    "metrics": {"every_steps": 10},
}
WAYS = {"full": {"optim.lr": 5e-4}, "lora": {"optim.lr": 4e-3, "lora.rank": 16, "lora.alpha": 32, "precision.frozen": "bf16"}}


def is_held_out(path, root):
    return zlib.crc32(str(path.relative_to(root)).encode()) % 10 == 0


def functions(path):
    """(source without docstring, first line of the docstring) of each short function of a file."""
    try:
        text = path.read_text("utf-8")
        tree = ast.parse(text)
    except (SyntaxError, UnicodeDecodeError):
        return
    lines = text.splitlines()
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not ast.get_docstring(node) or len(node.body) < 2:
            continue
        summary = " ".join(re.split(r"\n\s*\n", ast.get_docstring(node).strip(), maxsplit=1)[0].split())
        doc = node.body[0]
        source = lines[node.lineno - 1:doc.lineno - 1] + lines[doc.end_lineno:node.end_lineno]
        indent = node.col_offset
        source = "\n".join(line[indent:] for line in source)[:MOST_CHARACTERS]
        if 3 <= len(summary.split()) <= 25 and not any(name in source + summary for name in chat_folder.SPECIAL):
            yield source, summary


def items(paths, known=()):
    """Of functions with the same summary only the first, since overloads repeat theirs; none with one that is known."""
    seen = set(known)
    for path in paths:
        for source, summary in functions(path):
            if summary not in seen:
                seen.add(summary)
                yield source, summary


def make_tokenizer(folder, paths):
    lines = (line for path in paths for line in open(path, encoding="utf-8"))
    tokenizer = byte_level.train(byte_level.GPT2, lines, VOCABULARY, chat_folder.SPECIAL)
    chat_folder.write(folder)  # its template, and the token that ends a turn
    tokenizer.save(str(folder / "tokenizer.json"))


class Work:
    def __init__(self, args):
        self.args, self.folder = args, args.folder
        root = next(pathlib.Path(".venv/lib").glob("python3*")) / "site-packages" / "torch"
        sources = sorted(root.rglob("*.py"))
        self.held_out = [path for path in sources if is_held_out(path, root)]
        self.seen = [path for path in sources if not is_held_out(path, root)]

    def echelon(self, *arguments, program="echelon", **more):
        return subprocess.run([f"{self.args.bin}/{program}", *map(str, arguments)], check=True, **more)

    def prepare(self):
        tokenizer = self.folder / "tokenizer"
        if not (tokenizer / "tokenizer.json").exists():
            make_tokenizer(tokenizer, self.seen)
        self.echelon("prepare", *self.seen, "--format", "code", "--tokenizer", tokenizer, "-o", self.folder / "sources")
        self.learned = list(items(self.seen))
        self.asked = list(items(self.held_out, {summary for _, summary in self.learned}))
        for split, pairs in ("train", self.learned), ("held-out", self.asked):
            chats = self.folder / f"{split}.jsonl"
            if not chats.exists():  # prepare would take a new one for other data
                chat_folder.write_chats(chats, [[("user", ASK + source), ("assistant", summary)] for source, summary in pairs])
            self.echelon("prepare", chats, "--format", "chat", "--tokenizer", tokenizer, "-o", self.folder / split,
                         "--validation-fraction", 0, "--show", 1)

    def base(self):
        """A Hugging Face folder with the tokenizer and template of the chats."""
        run, folder = self.folder / "base", self.folder / "base-hf"
        sources = self.folder / "sources"
        self.echelon("train", *BASE, "--ranks", 2, f"run.dir={run}", f"data.path={sources}/train.tok",
                     f"data.validation.path={sources}/valid.tok", f"train.steps={self.args.base_steps}")
        if not folder.exists():
            self.echelon("export", run, "--output", folder, program="echelon-ckpt")
            for file in (self.folder / "tokenizer").iterdir():
                (folder / file.name).write_bytes(file.read_bytes())
        return folder

    def tune(self, way, base):
        recipe = json.loads(json.dumps({**TUNING, "model": {"from": str(base)}}))
        recipe["run"]["dir"] = str(self.folder / way)
        recipe["data"]["path"] = str(self.folder / "train/train.tok")
        recipe["data"]["validation"] = {"path": str(self.folder / "held-out/train.tok"), "batches": 0}
        recipe["train"] |= {"steps": self.args.steps, "validate_every_steps": self.args.steps // 6}
        recipe["checkpoint"] = {"every_steps": self.args.steps, "keep_last": 1}
        file = self.folder / f"{way}.yaml"
        file.write_text(json.dumps(recipe, indent=1))  # JSON is YAML
        self.echelon("train", file, "--ranks", 2, *(f"{key}={value}" for key, value in WAYS[way].items()))

    def answers(self, model, sources):
        """What a model answers when it is asked for the docstrings of `sources`, greedily; of a long one, the first line."""
        found = []
        for at in range(0, len(sources), 32):
            prompts = [f"<|im_start|>user\n{ASK}{source}<|im_end|>\n<|im_start|>assistant\n" for source in sources[at:at + 32]]
            words = [word for prompt in prompts for word in ("--prompt", prompt)]
            text = self.echelon("sample", model, "--tokens", 48, *words, capture_output=True, text=True).stdout
            for prompt in prompts:  # each is printed before its answer
                text = text.partition(prompt)[2]
                found.append(text.partition("<|im_start|>")[0].replace("<|im_end|>", "").strip().partition("\n")[0])
        return found

    def figures(self, way):
        """Median seconds of a step, bytes that a rank's tensors took at most and that it sent in a step, validation losses."""
        lines = [json.loads(line) for line in (self.folder / way / "metrics.jsonl").read_text().splitlines()]
        last = lines[-1]
        return [f"{numpy.median([line['step_time_s'] for line in lines]):.2f}", f"{last['tensor_peak_bytes'] / 2**20:.0f}",
                f"{last['sent_bytes'] / 2**20:.1f}",
                ", ".join(f"{line['validation_loss']:.3f}" for line in lines if "validation_loss" in line)]


def words_of_name(source):
    """A baseline: the function's name as a sentence."""
    return re.search(r"def (\w+)", source)[1].replace("_", " ").strip().capitalize() + "."


def main():
    warnings.simplefilter("ignore")  # escapes in old sources
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("runs/docstring-chats"))
    parser.add_argument("--base-steps", type=int, default=1600)
    parser.add_argument("--steps", type=int, default=336)
    parser.add_argument("--items", type=int, default=400, help="held-out functions to write docstrings for")
    work = Work(parser.parse_args())
    work.folder.mkdir(parents=True, exist_ok=True)
    work.prepare()
    base = work.base()
    for way in WAYS:
        work.tune(way, base)
    sources, expected = zip(*work.asked[:work.args.items])
    answers = {way: work.answers(work.folder / way, sources) for way in WAYS}
    answers = {"the function's name": [words_of_name(source) for source in sources], "base": work.answers(base, sources), **answers}
    print(f"{len(sources)} held-out functions\n| | s per step | tensors of a rank, MiB | sent in a step, MiB | "
          "validation loss | ROUGE-L |\n|---|---|---|---|---|---|")
    for way, generated in answers.items():
        figures = work.figures(way) if way in WAYS else [""] * 4
        print("| " + " | ".join([way, *figures, f"{scores(zip(generated, expected, strict=True))['rougeL']:.3f}"]) + " |")
    for at in range(0, len(sources), len(sources) // 8):
        print("\n" + sources[at].partition("\n")[0], *(f"  {way}: {texts[at]}" for way, texts in answers.items()),
              f"  expected: {expected[at]}", sep="\n")


if __name__ == "__main__":
    main()
