"""Started on a Slurm cluster of two nodes by `./make.sh bench memory_saves`: memory_steps.py ECHELON RECIPE STEPS FOLDER

Trains STEPS steps with one rank on each node, without memory checkpoints and with one after the other. One JSON line for
each: the median step without the first two, for how long training waited at a save, and how many were complete.
"""
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

LONGEST_S = 900
EVERY = {"without": 0, "with": 1}  # a save is left out while the one before is on its way


def train(echelon, recipe, steps, folder, every):
    """The lines of metrics.jsonl, and rank 0's log; the run is ended after its last step."""
    shutil.rmtree(folder, ignore_errors=True)
    words = ["srun", "--nodes=2", "--ntasks-per-node=1", "--mpi=pmix", "--cpu-bind=none", "--quiet", "--kill-on-bad-exit=1", echelon,
             "train", recipe, f"run.dir={folder}", f"train.steps={steps + 1}", "train.device=cpu", "train.threads_per_rank=1",
             "train.global_batch_size=4", "metrics.every_steps=1", "checkpoint.every_steps=0", f"checkpoint.memory_every_steps={every}"]
    metrics, deadline = folder / "metrics.jsonl", time.monotonic() + LONGEST_S
    job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        while not metrics.exists() or metrics.read_text().count("\n") < steps:
            if job.poll() is not None or time.monotonic() > deadline:
                job.kill()
                sys.exit(f"{' '.join(words)} ended early: {job.stderr.read()[-1000:]}")
            time.sleep(0.1)
        return [json.loads(line) for line in metrics.read_text().splitlines()[:steps]], (folder / "logs/rank-0.log").read_text()
    finally:
        subprocess.run(["scancel", "--signal=KILL", "--user=root"], check=False)  # the cluster is this benchmark's own
        job.kill()
        job.wait()


def main():
    echelon, recipe, steps, folder = sys.argv[1:]
    for what, every in EVERY.items():
        lines, log = train(echelon, recipe, int(steps), pathlib.Path(folder) / what, every)
        saves = len(re.findall(r"saved step \d+ to the memory of 2 nodes", log))
        stalls = [line["save_stall_s"] for line in lines if line["save_stall_s"] > 0.02]  # a save, not only its vote
        print(json.dumps({"what": what, "step_s": statistics.median(line["step_time_s"] for line in lines[2:]), "saves": saves,
                          "stall_s": statistics.median(stalls) if stalls else None}), flush=True)


if __name__ == "__main__":
    main()
