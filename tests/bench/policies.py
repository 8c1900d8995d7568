"""What each choice of the engine costs: the 179 M Llama on 2 CPU ranks, one thread each, one change at a time.

The base runs again after every third row, and rows are compared with the mean of the two base runs around them, so that
a machine that slows down in between changes both. Prints a Markdown table: time and peak memory as ratios to the base,
and the exposed communication."""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

RECIPE = "recipes/llama_179m_synthetic.yaml"
ROWS = [
    ("full_shard, a unit a layer, bf16 (base)", []),
    ("`precision: {preset: fp32}`", ["precision.preset=fp32", "precision.param=unset", "precision.reduce=unset",
                                     "precision.buffer=unset"]),
    ("`shard.strategy: shard_grad_op`", ["shard.strategy=shard_grad_op"]),
    ("`shard.strategy: shard_optimizer`", ["shard.strategy=shard_optimizer"]),
    ("`shard.strategy: no_shard`", ["shard.strategy=no_shard"]),
    ("`shard.wrap.policy: none`", ["shard.wrap.policy=none"]),
    ("`shard.wrap: {policy: size_based, min_params: 5000000}`",
     ["shard.wrap.policy=size_based", "shard.wrap.min_params=5000000"]),
    ("`shard.backward_prefetch: none`, `forward_prefetch: 0`",
     ["shard.backward_prefetch=none", "shard.forward_prefetch=0"]),
    ("`shard.offload: cpu`", ["shard.offload=cpu"]),
    ("`activation_checkpointing.policy: full`", ["activation_checkpointing.policy=full"]),
    ("`activation_checkpointing.policy: every_n`", ["activation_checkpointing.policy=every_n"]),
    ("`activation_checkpointing.policy: selective`", ["activation_checkpointing.policy=selective"]),
    ("4 micro-batches a step (time of one)", ["train.global_batch_size=16"]),
    ("4 micro-batches, `reduce_gradients: last_micro_batch`",
     ["train.global_batch_size=16", "train.reduce_gradients=last_micro_batch"]),
    ("`precision.preset: bf16_pure`, anyprecision_adamw",
     ["precision.preset=bf16_pure", "precision.param=unset", "precision.reduce=unset", "precision.buffer=unset",
      "optim.kind=anyprecision_adamw"]),
]


def run(echelon, overrides, steps):
    """(seconds a micro-batch, peak bytes a rank, seconds waiting for collectives a step)."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([echelon, "train", RECIPE, "--ranks", "2", f"run.dir={folder}", f"train.steps={steps}",
                        "train.threads_per_rank=1", "checkpoint.keep_last=1", *overrides],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=900)
        lines = [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]
    passes = 4 if "train.global_batch_size=16" in overrides else 1
    return (statistics.median(line["step_time_s"] for line in lines[1:]) / passes,
            lines[-2]["peak_rss_bytes"], statistics.median(line["comm_wait_s"] for line in lines[1:]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--echelon", default="build/release/bin/echelon")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--only", help="rows whose text holds this")
    args = parser.parse_args()
    rows = [row for row in ROWS[1:] if not args.only or args.only in row[0]]
    base = run(args.echelon, [], args.steps)
    print("| change | time | s a micro-batch | peak memory | GiB a rank | s waiting a step |\n|---|---|---|---|---|---|")
    print(f"| {ROWS[0][0]} | 1 | {base[0]:.2f} | 1 | {base[1] / 2**30:.2f} | {base[2]:.2f} |", flush=True)
    for first in range(0, len(rows), 3):
        results = [(name, run(args.echelon, overrides, args.steps)) for name, overrides in rows[first:first + 3]]
        after = run(args.echelon, [], args.steps)
        middle = [(a + b) / 2 for a, b in zip(base, after)]
        for name, row in results:
            print(f"| {name} | {row[0] / middle[0]:.2f} | {row[0]:.2f} | {row[1] / middle[1]:.2f} | "
                  f"{row[1] / 2**30:.2f} | {row[2]:.2f} |", flush=True)
        base = after


if __name__ == "__main__":
    main()
