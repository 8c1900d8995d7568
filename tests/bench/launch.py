"""Launch to first finished step of a tiny recipe on two local ranks, beside an empty torchrun + gloo job.

Prints a table of seconds (median of the repetitions, the two in turn) and their ratio.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

EMPTY_JOB = "import torch.distributed as dist; dist.init_process_group('gloo'); dist.barrier(); dist.destroy_process_group()"


def echelon(binary, recipe, folder):
    """Seconds until metrics.jsonl holds the first step."""
    metrics = folder / "metrics.jsonl"
    command = [binary, "train", recipe, "--ranks", "2", "train.steps=1", "checkpoint.every_steps=0", f"run.dir={folder}"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
        while not (metrics.exists() and metrics.stat().st_size > 0):
            if job.poll() not in (None, 0):
                sys.exit(f"echelon train ended with {job.returncode}")
            time.sleep(0.001)
        took = time.perf_counter() - began
        job.wait()
    return took


def torchrun(python):
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(EMPTY_JOB)
        script.flush()
        began = time.perf_counter()
        subprocess.run([python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script.name],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--echelon", required=True)
    parser.add_argument("--python", required=True, help="an interpreter that has torch")
    parser.add_argument("--recipe", default="recipes/smoke.yaml")
    parser.add_argument("--repeat", type=int, default=7)
    args = parser.parse_args()
    ours, peers = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for i in range(args.repeat + 1):
            pair = echelon(args.echelon, args.recipe, pathlib.Path(scratch) / f"run-{i}"), torchrun(args.python)
            if i > 0:  # the first pair warms the page cache
                ours.append(pair[0])
                peers.append(pair[1])
    ratio = statistics.median(p / o for o, p in zip(ours, peers))
    print(f"launch to first finished step, 2 ranks: {statistics.median(ours):.2f} s (min {min(ours):.2f}, max {max(ours):.2f})")
    print(f"torchrun + gloo, an empty job:          {statistics.median(peers):.2f} s (min {min(peers):.2f}, max {max(peers):.2f})")
    print(f"ratio peer / ours: {ratio:.1f}")


if __name__ == "__main__":
    main()
