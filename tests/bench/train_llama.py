"""Tokens per second and peak memory of the 179 M Llama on two CPU ranks, beside PyTorch FSDP2 in the same run.

The two run in turn, `--repeat` times, each with `--steps` steps of which the first is not counted; the ratio is taken
pair by pair, so that a machine whose speed drifts still compares like with like.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

RECIPE = "recipes/llama_179m_synthetic.yaml"
TUNED_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
                "MALLOC_TOP_PAD_": str(256 << 20)}


def echelon(binary, steps, ranks):
    with tempfile.TemporaryDirectory() as folder:
        # killed after the last counted step: the final checkpoint is not what is measured
        command = [binary, "train", RECIPE, "--ranks", str(ranks), f"train.steps={steps + 1}",
                   f"train.global_batch_size={2 * ranks}", "train.threads_per_rank=1", f"run.dir={folder}/run"]
        metrics = pathlib.Path(folder) / "run" / "metrics.jsonl"
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        lines = []
        for line in job.stderr:
            lines.append(line)
            if line.startswith(f"step {steps}/"):
                break
        records = [json.loads(line) for line in metrics.read_text().splitlines()]
        job.kill()
        job.wait()
        if len(records) < steps:
            sys.exit("echelon train failed:\n" + "".join(lines))
    step = statistics.median(r["step_time_s"] for r in records[1:])
    return {"step_s": step, "tokens_per_s": ranks * 1024 / step, "peak_rss_bytes": records[-1]["peak_rss_bytes"]}


def fsdp2(python, steps, ranks, extra_environment):
    script = pathlib.Path(__file__).with_name("fsdp2_llama.py")
    jobs = []
    for rank in range(ranks):
        environment = {**os.environ, **extra_environment, "RANK": str(rank), "LOCAL_RANK": str(rank),
                       "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29577"}
        jobs.append(subprocess.Popen([python, script, "--steps", str(steps)], env=environment, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    outputs = [job.communicate()[0] for job in jobs]
    if any(job.returncode for job in jobs):
        sys.exit("the FSDP2 job failed")
    return json.loads(outputs[0].splitlines()[-1])


def describe(name, results):
    step = statistics.median(r["step_s"] for r in results)
    tokens = statistics.median(r["tokens_per_s"] for r in results)
    rss = max(r["peak_rss_bytes"] for r in results) / 2**30
    print(f"{name:<28} {step:7.2f} s/step {tokens:8.0f} tokens/s {rss:6.2f} GiB a rank")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--echelon", required=True)
    parser.add_argument("--python", required=True, help="an interpreter that has torch and transformers")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    ours, plain, tuned = [], [], []
    for _ in range(args.repeat):
        ours.append(echelon(args.echelon, args.steps, args.ranks))
        plain.append(fsdp2(args.python, args.steps, args.ranks, {}))
        tuned.append(fsdp2(args.python, args.steps, args.ranks, TUNED_MALLOC))
    describe("Echelon", ours)
    describe("FSDP2", plain)
    describe("FSDP2, malloc tuned", tuned)
    for name, peers in (("FSDP2", plain), ("FSDP2, malloc tuned", tuned)):
        ratios = [o["tokens_per_s"] / p["tokens_per_s"] for o, p in zip(ours, peers)]
        print(f"tokens/s, Echelon / {name}: median {statistics.median(ratios):.2f} (min {min(ratios):.2f}, max {max(ratios):.2f})")


if __name__ == "__main__":
    main()
