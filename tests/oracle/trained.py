"""Runs the product: `echelon train` on tiny.yaml, and `echelon-ckpt consolidate` on what it saved."""
import json
import subprocess

import dump


def command(*words):
    """Runs a program; returns what it prints."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def train(args, run, overrides, ranks):
    """Trains to the end; returns the lines of metrics.jsonl, one for each step."""
    command(args.echelon, "train", dump.RECIPE, "--ranks", ranks, f"run.dir={run}", *overrides)
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == list(range(1, len(metrics) + 1)), metrics
    return metrics


def step_folder(run, step):
    (found,) = (run / "checkpoints").glob(f"step-{step:09d}.*")
    return found


def consolidate(args, checkpoint, kind, output, *options):
    command(args.ckpt, "consolidate", checkpoint, "--to", kind, "--output", output, *options)
    return output
