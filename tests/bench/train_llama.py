"""Tokens per second and peak memory of the 179 M Llama on two CPU ranks, beside PyTorch FSDP2 in the same run.

The two run in turn, `--repeat` times, each with `--steps` steps of which the first is not counted; the ratio is taken
pair by pair, so that a machine whose speed drifts still compares like with like. All ranks' cores also multiply
matrices for a moment (matmul_rate.py): what share of that rate a step reaches says how much is left to gain.
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

RECIPE = "recipes/llama_179m_synthetic.yaml"
TOKENS = 2 * 512  # of a rank and step
# As Llama::flops_per_token: 6 for each weight that multiplies, and attention over the whole sequence.
FLOPS_PER_TOKEN = 6.0 * (179_448_576 - 50_000 * 768) + 12.0 * 12 * 768 * 512
TUNED_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
                "MALLOC_TOP_PAD_": str(256 << 20)}
# name -> (overrides of the recipe, options of fsdp2_llama.py)
VARIANTS = {
    "default": ([], []),
    "full_checkpointing": (["activation_checkpointing.policy=full"], ["--checkpoint"]),
    "shard_grad_op": (["shard.strategy=shard_grad_op"], ["--keep-gathered"]),
}


def echelon(args, recipe, overrides):
    """Median step without the first, and peak memory, of `args.steps` steps."""
    with tempfile.TemporaryDirectory() as folder:
        # killed after the last counted step: the final checkpoint is not what is measured
        command = [args.echelon, "train", recipe, "--ranks", str(args.ranks), f"train.steps={args.steps + 1}",
                   "train.threads_per_rank=1", f"run.dir={folder}/run", *overrides]
        metrics = pathlib.Path(folder) / "run" / "metrics.jsonl"
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        lines = []
        for line in job.stderr:
            lines.append(line)
            if line.startswith(f"step {args.steps}/"):
                break
        records = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
        job.kill()
        job.wait()
        if len(records) < args.steps:
            sys.exit("echelon train failed:\n" + "".join(lines))
    step = statistics.median(r["step_time_s"] for r in records[1:])
    return {"step_s": step, "peak_rss_bytes": records[-1]["peak_rss_bytes"]}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def on_all_ranks(args, command, extra_environment):
    """Starts `command` once a rank at the same time; rank 0's last line, as JSON, and those of all."""
    common = {**os.environ, **extra_environment, "WORLD_SIZE": str(args.ranks), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(free_port())}
    with tempfile.TemporaryFile("w+") as errors:
        jobs = [subprocess.Popen(command, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, text=True,
                                 stdout=subprocess.PIPE, stderr=errors) for rank in range(args.ranks)]
        outputs = [job.communicate()[0] for job in jobs]
        if any(job.returncode for job in jobs):
            errors.seek(0)
            sys.exit(f"{command[1].name} failed:\n{errors.read()[-2000:]}")
    return [json.loads(output.splitlines()[-1]) if output.strip() else None for output in outputs]


def peer(args, name, options, extra_environment):
    """What rank 0 of the script `name` says."""
    script = pathlib.Path(__file__).with_name(name)
    return on_all_ranks(args, [args.python, script, "--steps", str(args.steps), *options], extra_environment)[0]


def matmul_rate(args):
    """flops/s of a core while the others do the same."""
    script = pathlib.Path(__file__).with_name("matmul_rate.py")
    return statistics.mean(r["flops_per_s"] for r in on_all_ranks(args, [args.python, script], {}))


def describe(args, name, results, rate):
    step = statistics.median(r["step_s"] for r in results)
    rss = max(r["peak_rss_bytes"] for r in results) / 2**30
    share = FLOPS_PER_TOKEN * TOKENS / step / rate
    print(f"{name:<28} {step:7.2f} s/step {args.ranks * TOKENS / step:8.0f} tokens/s {rss:6.2f} GiB a rank "
          f"{share:6.0%} of the matmul rate")


def compare(name, ours, peers):
    speed = [p["step_s"] / o["step_s"] for o, p in zip(ours, peers)]
    memory = [p["peak_rss_bytes"] / o["peak_rss_bytes"] for o, p in zip(ours, peers)]
    print(f"Echelon / {name}: speed, median {statistics.median(speed):.2f} (min {min(speed):.2f}, "
          f"max {max(speed):.2f}); peak memory of {name} / Echelon: {statistics.median(memory):.2f}")


def measure(args, variant):
    overrides, options = VARIANTS[variant]
    ours, plain, tuned, rates = [], [], [], []
    for _ in range(args.repeat):
        rates.append(matmul_rate(args))
        ours.append(echelon(args, RECIPE, [f"train.global_batch_size={2 * args.ranks}", *overrides]))
        plain.append(peer(args, "fsdp2_llama.py", options, {}))
        tuned.append(peer(args, "fsdp2_llama.py", options, TUNED_MALLOC))
    rate = max(rates)
    print(f"--- {variant}: bf16 matmul rate {rate / 1e9:.0f} GFLOP/s a core")
    describe(args, "Echelon", ours, rate)
    describe(args, "FSDP2", plain, rate)
    describe(args, "FSDP2, malloc tuned", tuned, rate)
    compare("FSDP2", ours, plain)
    compare("FSDP2, malloc tuned", ours, tuned)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--echelon", required=True)
    parser.add_argument("--python", required=True, help="an interpreter that has torch and transformers")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    args = parser.parse_args()
    for variant in args.variants:
        measure(args, variant)


if __name__ == "__main__":
    main()
