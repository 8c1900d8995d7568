"""A small T5 learns to summarize Python docstrings: the pairs of docstrings.py out of the torch package of .venv, prepared,
trained on two ranks with recipes/t5_docstrings.yaml, and the ROUGE of its summaries beside that of lead baselines, which
take the beginning of a text for its summary.

A second call takes a stopped training up again, and a finished one is only scored.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

import numpy
import sentencepiece
from rouge_score import rouge_scorer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import docstrings
from check_token_file import documents

SCORES = ("rouge1", "rouge2", "rougeL")


def texts(folder, split):
    """Sources and targets of prepared pairs, in their order."""
    model = (folder / "tokenizer.model").read_bytes()
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=model)
    decoded = [tokenizer.decode(ids) for ids in documents(folder / f"{split}.tok", model, pairs=True)]
    return list(zip(decoded[::2], decoded[1::2], strict=True))


def lead(text):
    return re.split(r"(?<=[.!?:])\s", text, maxsplit=1)[0]


def scores(pairs):
    """Mean F-measures of (generated, expected) texts."""
    scorer = rouge_scorer.RougeScorer(SCORES, use_stemmer=False)
    found = [scorer.score(target=expected, prediction=generated) for generated, expected in pairs]
    return {name: numpy.mean([score[name].fmeasure for score in found]) for name in SCORES}


def sampled(args, text):
    """The trained model's summary."""
    done = subprocess.run([args.echelon, "sample", args.run, "--prompt", text, "--tokens", "48"], check=True, capture_output=True,
                          text=True)
    return done.stdout.strip()


def prepare(args):
    torch = next(pathlib.Path(".venv/lib").glob("python3*")) / "site-packages" / "torch"
    if not (args.data / "docstrings.csv").exists():
        docstrings.write(torch, args.data / "docstrings.csv")
    subprocess.run([args.echelon, "prepare", args.data / "docstrings.csv", "--format", "csv", "--input", "text", "--target",
                    "headline", "--train-tokenizer", "4096", "--validation-fraction", "0.06", "--output", args.data], check=True)


def row(name, values):
    print("| " + " | ".join([name, *(f"{values[key]:.3f}" for key in SCORES)]) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--echelon", default="build/release/bin/echelon")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("data/docstrings"))
    parser.add_argument("--run", type=pathlib.Path, default=pathlib.Path("runs/t5-docstrings"))
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for the recipe")
    args = parser.parse_args()
    prepare(args)
    subprocess.run([args.echelon, "train", "recipes/t5_docstrings.yaml", "--ranks", "2", f"run.dir={args.run}",
                    f"data.path={args.data}/train.tok", f"data.validation.path={args.data}/valid.tok", *args.overrides],
                   check=True)
    lines = [json.loads(line) for line in (args.run / "metrics.jsonl").read_text().splitlines()]
    held_out = texts(args.data, "valid")
    print("| step | validation loss | " + " | ".join(SCORES) + " |\n|---|---|---|---|---|")
    for line in lines:
        if "rougeL" in line:
            row(f"{line['step']} | {line['validation_loss']:.3f}", line)
    row("first sentence of the text |", scores([(lead(text), summary) for text, summary in held_out]))
    row("first 12 words of the text |", scores([(" ".join(text.split()[:12]), summary) for text, summary in held_out]))
    for text, summary in held_out[:5]:
        print(f"\ntext:      {text[:160]}\nsummary:   {summary}\ngenerated: {sampled(args, text)}")


if __name__ == "__main__":
    main()
