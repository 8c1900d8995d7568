"""A T5 keeps its meaning between transformers and the engine: one that transformers 4 made gives the same loss and logits
after its import, and one that `echelon train` saved gives the trainer's in transformers 4 and 5 after its export.
usage: t5_checkpoint_oracle.py --dump ... --transformers5 FOLDER | t5_checkpoint_oracle.py --evaluate MODEL PAIRS OUTPUT"""
import os
import subprocess
import sys

import torch
from transformers import T5Config, T5ForConditionalGeneration

import dump
import t5_oracle
import trained

EXACT = 1e-5
ROWS = 5
DATA = ["data.kind=synthetic_pairs", "data.seq_len=50", "data.target_len=20"]
SIZES = dict(vocab_size=97, d_model=24, d_kv=5, d_ff=36, num_layers=2, num_decoder_layers=3, num_heads=4,
             relative_attention_num_buckets=8, relative_attention_max_distance=20)
MADE = {"v1_0": {}, "v1_1": dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)}
TRAINED = {"v1_0": t5_oracle.V1_0, "v1_1": t5_oracle.V1_1 + ["model.head_size=5", "model.heads=3"]}


def evaluate(model, pairs):
    """Summed loss, and the logits of each target's first token."""
    with torch.no_grad():
        out = model.float().eval()(**pairs)
    return {"loss": out.loss * (pairs["labels"] >= 0).sum(), "logits": out.logits[:, 0]}


def in_other_transformers(args, export, pairs, folder):
    """The same by the transformers in args.transformers5."""
    torch.save(pairs, folder / "pairs.pt")
    subprocess.run([sys.executable, __file__, "--evaluate", str(export), str(folder / "pairs.pt"), str(folder / "out.pt")],
                   check=True, env={**os.environ, "PYTHONPATH": args.transformers5}, timeout=200)
    return torch.load(folder / "out.pt")


def ours(args, folder, name, recipe, overrides, checkpoint):
    """What the engine computes with a checkpoint's weights, and what it computed it of."""
    case = {"name": name, "mode": "logits", "recipe": str(recipe), "overrides": overrides, "checkpoint": str(checkpoint),
            "first": 30, "rows": ROWS}
    output = dump.dump(args, folder, 1, [case])[name]
    values = {"loss": dump.read_f32(output, "loss")[0], "logits": dump.read_f32(output, "logits").view(ROWS, -1)}
    return values, t5_oracle.pairs(output)


def compare(what, actual, expected):
    errors = {key: dump.relative_error(actual[key], expected[key]) for key in expected}
    worst = errors[dump.worst_of(errors)]
    print(f"{'ok  ' if worst <= EXACT else 'FAIL'} {what}: loss within {errors['loss']:.1e}, logits within {errors['logits']:.1e}",
          flush=True)
    return worst <= EXACT  # false for NaN too


def check_import(args, folder, name):
    torch.manual_seed(3)
    model = T5ForConditionalGeneration(T5Config(decoder_start_token_id=0, **SIZES, **MADE[name]))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    source, checkpoint = folder / f"made-{name}", folder / f"imported-{name}"
    model.save_pretrained(source)
    trained.command(args.ckpt, "import", source, "--output", checkpoint)
    (recipe,) = checkpoint.glob("step-*/recipe.yaml")
    values, pairs = ours(args, folder, f"import-{name}", recipe, DATA, checkpoint)
    return compare(f"{name} after its import", values, evaluate(model, pairs))


def check_export(args, folder, name):
    run, export = folder / f"run-{name}", folder / f"export-{name}"
    overrides = TRAINED[name] + DATA + ["train.steps=3", "checkpoint.every_steps=0", "model.dropout=0.1"]
    trained.train(args, run, overrides, 2)
    trained.command(args.ckpt, "export", run, "--output", export)
    values, pairs = ours(args, folder, f"export-{name}", dump.RECIPE, overrides, run)
    ok = compare(f"{name} in transformers 4", evaluate(T5ForConditionalGeneration.from_pretrained(export), pairs), values)
    return compare(f"{name} in transformers 5", in_other_transformers(args, export, pairs, folder), values) and ok


def main():
    if sys.argv[1] == "--evaluate":
        model, pairs, output = sys.argv[2:]
        torch.save(evaluate(T5ForConditionalGeneration.from_pretrained(model), torch.load(pairs)), output)
        return
    args = dump.arguments()
    with dump.Folder() as folder:
        results = [check(args, folder, name) for name in MADE for check in (check_import, check_export)]
        if not all(results):
            raise SystemExit("the engine and transformers disagree")


if __name__ == "__main__":
    main()
