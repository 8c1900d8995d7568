"""`echelon evaluate` finds as many right answers as lm-evaluation-harness does with transformers: on an exported folder in
one process, and on the run folder over 2 and 3 ranks. And recipes/tasks/convert.py asks what the harness's tasks ask.

usage: evaluate_oracle.py --echelon PROGRAM --ckpt PROGRAM ... | evaluate_oracle.py --recipes"""
import json
import math
import sys
import time

from tokenizers import processors

import dump
import byte_level
import evaluate_items
import harness
import task_recipes
from trained import command

VOCAB = 700
TRAINED = ["train.steps=250", "train.micro_batch_size=6", "data.kind=tokens", "data.seq_len=96", "model.hidden_size=64",
           "model.intermediate_size=160", "model.max_positions=1024", "model.init_std=0.04", "checkpoint.every_steps=0"]
MODELS = {  # whether a token begins each text; where each command is tried: checkpoint and ranks
    "gpt2": (False, [[("exported", 1), ("run", 2), ("run", 3)], [("exported", 1), ("run", 2)]]),
    "llama3": (True, [[("exported", 1), ("run", 3)]]),
}
TOKENS = 5  # too few for some answers
MORE_TOKENS = 24
LIMIT = 301  # ranks have items of unlike numbers
PREFIX = "import math\n\n\ndef größe(x):\n    y = 2\n    return x\n\n"
UNTIL = ("\n ", "or", "ch")  # one token holds the last two
AFTER = "="


def make_tokenizer(path, documents, begins):
    """As GPT-2's, where a text without context follows the token that ends texts; `begins`: as Llama 3's, which puts a token
    in front of every text and joins line breaks to the signs before them."""
    begin = "<|begin_of_text|>"
    words = byte_level.split_by(byte_level.LLAMA3) if begins else byte_level.GPT2
    tokenizer = byte_level.train(words, documents, VOCAB, ["<|endoftext|>", *([begin] if begins else [])])
    if begins:
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{begin} $A", special_tokens=[(begin, 1)])
    tokenizer.save(str(path))


def train(args, folder, begins):
    """A run folder, and its export."""
    documents = evaluate_items.documents()
    make_tokenizer(folder / "tokenizer.json", documents, begins)
    with open(folder / "documents.jsonl", "w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in documents)
    report = json.loads(command(args.echelon, "prepare", folder / "documents.jsonl", "-o", folder / "data", "--json",
                                "--tokenizer", folder / "tokenizer.json", "--validation-fraction", 0))
    command(args.echelon, "train", dump.RECIPE, "--ranks", 2, f"run.dir={folder / 'run'}",
            f"data.path={folder / 'data' / 'train.tok'}", f"model.vocab_size={report['vocab_size']}", *TRAINED)
    command(args.ckpt, "export", folder / "run", "--output", folder / "exported")


def evaluate(args, checkpoint, tasks, *options):
    words = [word for path in tasks for word in ("--task", path)]
    return json.loads(command(args.echelon, "evaluate", checkpoint, *words, "--device", "cpu", "--json", *options))["tasks"]


def standard_error(share, count):
    return math.sqrt(share * (1 - share) / (count - 1))


def compare(what, expected, found):
    """Equal numbers of right answers, but for items that are close."""
    assert found.keys() == expected.keys(), f"{what}: {found}"
    for name, theirs in expected.items():
        ours, close = found[name], theirs["close"]
        assert ours.keys() == theirs.keys() - {"close"}, f"{what}, {name}: {ours}"
        assert all(ours[key] == theirs[key] for key in ("kind", "items")), f"{what}, {name}: {ours}"
        for key, count in close.items():
            apart = abs(ours[key] - theirs[key]) * theirs["items"]
            assert apart < count + 1e-6, \
                f"{what}, {name}: {key} {ours[key]}, the harness {theirs[key]}: {apart:.2f} items, {count} may differ"
        main = next(iter(close))
        for said in (ours, theirs):
            error = standard_error(said[main], said["items"])
            assert math.isclose(said[f"{main}_stderr"], error, rel_tol=1e-6), f"{what}, {name}: {said}, expected {error}"


def write(folder, tasks):
    """{name: file}"""
    paths = {name: folder / f"{name}.jsonl" for name in tasks}
    for name, rows in tasks.items():
        paths[name].write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return paths


def commands(model, folder):
    """As people start it, and with every option: (options, tasks, what the harness says)."""
    items, tokenizer = evaluate_items.Items(), model.tokenizer

    def shortened(text):
        return tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)[:TOKENS])
    tasks = {"lines": items.choices(), "rest": items.exact(shortened), "assigned": items.assigned(UNTIL)}
    paths = write(folder, tasks)
    yield (["--tokens", TOKENS], [paths["lines"], paths["rest"]],
           harness.scores(model, [harness.choices_task("lines", tasks["lines"]),
                                  harness.exact_task("rest", tasks["rest"], TOKENS)]))
    (folder / "prefix.txt").write_text(PREFIX)
    yield (["--prefix-file", folder / "prefix.txt", "--limit", LIMIT, "--tokens", MORE_TOKENS, "--after", AFTER,
            *(word for text in UNTIL for word in ("--until", text))], [paths["lines"], paths["assigned"]],
           harness.scores(model, [harness.choices_task("lines", tasks["lines"], PREFIX),
                                  harness.exact_task("assigned", tasks["assigned"], MORE_TOKENS, PREFIX, UNTIL, AFTER)], LIMIT))


def check(args, folder, places):
    """`places`: checkpoint and ranks, for each of the commands."""
    model = harness.open_model(folder / "exported")
    for wheres, (options, paths, expected) in zip(places, commands(model, folder)):  # no command more than places
        print(f"{folder.name}, the harness: {json.dumps(expected)}", flush=True)
        for checkpoint, ranks in wheres:
            started = time.monotonic()
            what = f"{folder.name}, {checkpoint}, {ranks} ranks, {paths[1].stem}"
            compare(what, expected, evaluate(args, folder / checkpoint, paths, "--ranks", ranks, *options))
            print(f"ok {what}: {time.monotonic() - started:.1f} s", flush=True)


def main():
    task_recipes.check()
    if sys.argv[1:] == ["--recipes"]:
        return
    args = dump.arguments()
    with dump.Folder() as folder:
        for name, (begins, places) in MODELS.items():
            (folder / name).mkdir()
            train(args, folder / name, begins)
            check(args, folder / name, places)


if __name__ == "__main__":
    main()
