"""Resident memory of a tiny T5 on random pairs, whose lengths differ from batch to batch, in bf16: at step 1, at most,
and how much of it is code compiled for the shapes of products. Also as oneDNN keeps it by itself (1,024 shapes).

Sizes are rank 0's; the step is the median without the first five.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

RECIPE = "recipes/t5_smoke.yaml"
UNBOUNDED = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "1024", "LRU_CACHE_CAPACITY": "1024"}


def run(args, environment):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([args.echelon, "train", RECIPE, "--ranks", str(args.ranks), f"run.dir={folder}/run",
                        f"train.steps={args.steps}", "train.threads_per_rank=1", "checkpoint.every_steps=0",
                        "metrics.every_steps=1"], env={**os.environ, **environment}, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()]
        log = (pathlib.Path(folder) / "run/logs/rank-0.log").read_text()
    code = re.findall(r"code compiled for products ([\d.]+ \w+)", log)
    return (lines[0]["peak_rss_bytes"] / 2**20, lines[-1]["peak_rss_bytes"] / 2**20, code[-1] if code else "not counted",
            statistics.median(line["step_time_s"] for line in lines[5:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--echelon", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    for _ in range(args.repeat):
        for name, environment in {"as it comes": {}, "1,024 shapes kept": UNBOUNDED}.items():
            first, peak, code, step = run(args, environment)
            print(f"{name:<18} {first:7.0f} MiB at step 1, {peak:7.0f} MiB at most, {code} of it compiled, "
                  f"{1000 * step:7.1f} ms a step")


if __name__ == "__main__":
    main()
