"""Runs the product: `echelon train` on tiny.yaml, and `echelon-ckpt consolidate` on what it saved."""
import json
import subprocess

import dump


def train(args, run, overrides, ranks):
    """Trains to the end; returns the lines of metrics.jsonl, one for each step."""
    command = [args.echelon, "train", str(dump.RECIPE), "--ranks", str(ranks), f"run.dir={run}", *overrides]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}"
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == list(range(1, len(metrics) + 1)), metrics
    return metrics


def step_folder(run, step):
    (found,) = (run / "checkpoints").glob(f"step-{step:09d}.*")
    return found


def consolidate(args, checkpoint, kind, output, *options):
    subprocess.run([args.ckpt, "consolidate", str(checkpoint), "--to", kind, "--output", str(output), *options],
                   check=True, stdout=subprocess.DEVNULL, timeout=120)
    return output
