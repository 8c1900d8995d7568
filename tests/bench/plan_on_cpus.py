"""Calibrates this machine and compares predicted with real training steps on its cores:

  python3 tests/bench/plan_on_cpus.py build/release/bin/echelon docs/plan_on_cpus.md

It takes ten minutes, needs nothing but the program, and is as good as the machine is quiet. Each shape trains twice, at
different times; what counts is the quartile of all its steps (the first two of each run left out), because
another program only makes steps slower. Memory is the peak of rank 0's process.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RECIPES = HERE.parents[1] / "recipes"
ROUNDS = 2
STEPS = 16
WARM = 2
COMMON = [f"train.steps={STEPS}", "schedule.warmup_steps=0", "train.validate_every_steps=0", "metrics.every_steps=1",
          "train.validate_every_epochs=0", "checkpoint.every_steps=0", "data.workers=0"]

# Recipe and overrides; none of these sizes is one that calibration times, but for the recipes as they are.
SHAPES = [
    ("llama_smoke", []),
    ("llama_smoke", ["model.hidden_size=320", "model.intermediate_size=896", "model.vocab_size=3072"]),
    ("llama_smoke", ["model.hidden_size=384", "model.intermediate_size=1024", "model.vocab_size=4096"]),
    ("llama_smoke", ["model.hidden_size=448", "model.intermediate_size=1280", "precision.preset=fp32"]),
    ("llama_smoke", ["model.hidden_size=320", "precision.preset=fp32", "activation_checkpointing.policy=full"]),
    ("llama_smoke", ["model.hidden_size=320", "model.layers=8", "activation_checkpointing.policy=selective"]),
    ("gpt_smoke", []),
    ("gpt_smoke", ["model.layers=8", "train.micro_batch_size=4", "train.global_batch_size=16"]),
    ("gpt_smoke", ["model.hidden_size=320", "model.vocab_size=6000", "precision.preset=fp32"]),
    ("t5_smoke", ["model.hidden_size=192", "train.micro_batch_size=8", "train.global_batch_size=32"]),
    ("t5_smoke", ["model.hidden_size=320", "precision.preset=fp32", "train.micro_batch_size=4",
                  "train.global_batch_size=16"]),
    ("deepvit_smoke", ["model.hidden_size=192", "train.micro_batch_size=16", "train.global_batch_size=32"]),
    ("mnist_smoke", ["train.micro_batch_size=32", "train.global_batch_size=64"]),
]
# Strategies differ only where there are several ranks.
SHARDED = [
    ("llama_smoke", ["model.hidden_size=320", "shard.strategy=no_shard"]),
    ("llama_smoke", ["model.hidden_size=320", "shard.strategy=shard_grad_op"]),
    ("llama_smoke", ["model.hidden_size=448", "shard.reshard_after_forward=false"]),
]

INTRODUCTION = """# The plan on calibrated CPU ranks
`echelon doctor job --calibrate FILE` times the operations and collectives of small models on the ranks of a job, and \
`echelon plan --gpu FILE` predicts steps from them. This page compares such predictions with real training steps. It \
is made by

```sh needs-time
python3 tests/bench/plan_on_cpus.py build/release/bin/echelon docs/plan_on_cpus.md
```

None of these sizes was timed in the calibration, but for the recipes without overrides. A shape trains twice, at \
different times. Measured is the quartile of its steps, because another program on the machine only makes steps \
slower. With it stands the median, which shows how much the machine's speed changed. Memory is the peak of rank 0's \
process.
"""


def execute(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


class Bench:
    def __init__(self, echelon, folder):
        self.echelon, self.folder = echelon, folder
        self.steps, self.memory = {}, {}

    def profile(self, ranks):
        return self.folder / f"cpu{ranks}.json"

    def calibrate(self, ranks):
        several = ["--ranks", ranks] if ranks > 1 else []
        execute([self.echelon, "doctor", "job", *several, "--calibrate", self.profile(ranks)])

    def train(self, case, number):
        ranks, recipe, overrides = case
        run = self.folder / f"run-{number}"
        several = ["--ranks", ranks] if ranks > 1 else []
        execute([self.echelon, "train", RECIPES / f"{recipe}.yaml", f"run.dir={run}", *COMMON, *overrides, *several])
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        times = [line["step_time_s"] for line in lines if "step_time_s" in line][WARM:]
        self.steps.setdefault(number, []).extend(times)
        measured = json.loads((run / "forecast.json").read_text())["measured"]
        self.memory[number] = (self.plan(case)["memory"]["peak_bytes"], measured["memory"]["process_peak_bytes"])

    def plan(self, case):
        ranks, recipe, overrides = case
        return json.loads(execute([self.echelon, "plan", RECIPES / f"{recipe}.yaml", *COMMON, *overrides,
                                   "--tasks-per-node", ranks, "--gpu", self.profile(ranks), "--json"]))


def table(bench, cases):
    rows, errors, sizes = [], [], []
    for number, case in enumerate(cases):
        times = sorted(bench.steps[number])
        measured = times[len(times) // 4]
        predicted = bench.plan(case)["step_time_s"]
        planned, taken = bench.memory[number]
        error, size = 100 * (predicted / measured - 1), 100 * (planned / taken - 1)
        errors.append(abs(error))
        sizes.append(abs(size))
        ranks, recipe, overrides = case
        changes = ", ".join(f"`{change.split('.', 1)[1]}`" for change in overrides)
        rows.append(f"| {ranks} | {recipe} {changes} | {1e3 * measured:.1f} | {1e3 * statistics.median(times):.1f} | "
                    f"{1e3 * predicted:.1f} | {error:+.0f} % | {taken / 2**20:.0f} | {size:+.0f} % |")
    summary = (f"Step time over {len(errors)} runs: median error {statistics.median(errors):.1f} %, "
               f"{sum(error <= 15 for error in errors)} within 15 %, worst {max(errors):.0f} %. Memory of the process: "
               f"median {statistics.median(sizes):.1f} %, worst {max(sizes):.0f} %.")
    head = ("| ranks | recipe | measured ms | median ms | predicted ms | error | process MiB | error |\n"
            "|---|---|---|---|---|---|---|---|\n")
    return summary, head + "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("echelon", type=pathlib.Path)
    parser.add_argument("page", type=pathlib.Path)
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    cases = [(1, *shape) for shape in SHAPES] + [(2, *shape) for shape in SHAPES + SHARDED]
    with tempfile.TemporaryDirectory() as made:
        bench = Bench(arguments.echelon.resolve(), pathlib.Path(made))
        for _ in range(ROUNDS):
            for number, case in enumerate(cases):
                for old in bench.folder.glob(f"run-{number}/*"):
                    subprocess.run(["rm", "-rf", str(old)], check=True)
                bench.train(case, number)
        for ranks in (1, 2):
            bench.calibrate(ranks)
        summary, rows = table(bench, cases)
    machine = f"Machine: {cores} cores, {platform.machine()}, Linux {platform.release()}, "
    machine += f"{cores} threads with one rank and {max(1, cores // 2)} with two."
    arguments.page.write_text(f"{INTRODUCTION}\n{machine} {summary}\n\n{rows}")
    print(summary)


if __name__ == "__main__":
    main()
