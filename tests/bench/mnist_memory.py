"""The tutorials' MNIST network on CPU ranks (2, or --ranks), batch 64 a rank, on scikit-learn's digits: what each way of splitting it
keeps and takes at most, its time, and the test accuracy it ends with. Prints a Markdown table.

Bytes are those of tensors on rank 0, counted by the engine's own allocator: what CUDA's peak of allocated memory is on a
GPU. Ratios are to `no_shard`, which runs first and last; times are compared with the mean of the two."""
import argparse
import json
import pathlib
import re
import subprocess
import tempfile

KEYS = {
    "run.seed": 1, "model.kind": "cnn", "model.image_size": 28, "model.channels": 1, "model.classes": 10,
    "model.dropout": 0.5, "data.kind": "idx", "data.mean": "[0.1307]", "data.std": "[0.3081]",
    "data.validation.batches": 0, "optim.kind": "adadelta", "optim.lr": 1.0, "optim.eps": 1e-6,
    "optim.weight_decay": 0.0, "schedule.kind": "step", "schedule.step_epochs": 1, "schedule.gamma": 0.7,
    "train.device": "cpu", "train.micro_batch_size": 64, "train.clip_grad_norm": 0.0,
    "train.threads_per_rank": 1, "checkpoint.every_steps": 0, "checkpoint.keep_last": 1, "metrics.every_steps": 1}
BY_SIZE = ["shard.wrap.policy=size_based", "shard.wrap.min_params=20000"]
ROWS = [
    ("`no_shard` (DDP)", ["shard.strategy=no_shard", "shard.wrap.policy=none"]),
    ("`shard_grad_op` (ZeRO-2), one unit", ["shard.strategy=shard_grad_op", "shard.wrap.policy=none"]),
    ("`full_shard`, one unit", ["shard.strategy=full_shard", "shard.wrap.policy=none"]),
    ("`full_shard`, units from 20,000 parameters", ["shard.strategy=full_shard", *BY_SIZE]),
    ("`full_shard`, units from 100 parameters", ["shard.strategy=full_shard", *BY_SIZE[:1], "shard.wrap.min_params=100"]),
    ("`full_shard`, from 20,000, `offload: cpu`", ["shard.strategy=full_shard", *BY_SIZE, "shard.offload=cpu"]),
]
SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def size(text, name):
    """Bytes behind `name` in a line of the log."""
    number, unit = re.search(rf"{name} ([\d.]+) (\w+)", text).groups()
    return float(number) * SIZES[unit]


def recipe(folder, digits, epochs):
    lines = {**KEYS, "data.path": f"{digits}/train-images-idx3-ubyte", "train.epochs": epochs,
             "data.validation.path": f"{digits}/test-images-idx3-ubyte", "train.validate_every_epochs": epochs}
    path = folder / "mnist.yaml"
    path.write_text("{}\n")
    return path, [f"{key}={value}" for key, value in lines.items()]


def run(echelon, digits, overrides, epochs, ranks):
    """(bytes kept, bytes of all tensors at most, seconds a step, test accuracy, seconds of the whole command)."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path, keys = recipe(folder, digits, epochs)
        subprocess.run([echelon, "train", str(path), "--ranks", str(ranks), f"run.dir={folder}/run", *keys,
                        f"train.global_batch_size={64 * ranks}", *overrides],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=900)
        lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
        log = (folder / "run/logs/rank-0.log").read_text()
    report = [line for line in log.splitlines() if "memory of this rank" in line][-1]
    kept = sum(size(report, part) for part in ("weights", ", gradients", "optimizer"))
    steps = sorted(line["step_time_s"] for line in lines[1:])
    return kept, size(report, "all tensors"), steps[len(steps) // 2], lines[-1]["validation_accuracy"], \
        sum(line["step_time_s"] for line in lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--echelon", default="build/release/bin/echelon")
    parser.add_argument("--digits", default="data/digits", help="made by ./make.sh digits")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    rows = [(name, run(args.echelon, args.digits, overrides, args.epochs, args.ranks)) for name, overrides in ROWS]
    again = run(args.echelon, args.digits, ROWS[0][1], args.epochs, args.ranks)
    base = rows[0][1]
    base_time = (base[2] + again[2]) / 2
    print("| split | kept, MiB | at most, MiB | ratio | s a step | ratio | test accuracy | s in steps |\n|---|---|---|---|---|---|---|---|")
    for name, (kept, peak, step, accuracy, seconds) in rows:
        print(f"| {name} | {kept / 2**20:.1f} | {peak / 2**20:.1f} | {peak / base[1]:.2f} | {step:.3f} | "
              f"{step / base_time:.2f} | {100 * accuracy:.1f} % | {seconds:.0f} |")


if __name__ == "__main__":
    main()
