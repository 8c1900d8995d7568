"""Does what `echelon plan --fit` proposes run, and does what it refuses not? In real memory limits:

  sudo python3 tests/bench/fit_on_cpus.py build/release/bin/echelon

For each base recipe and limit it asks for changes that fit, then trains two steps of the first proposal, and of the
recipe as it is, each in a memory cgroup of the ranks' limit (swap counts as memory). Needs root, cgroup v1 or v2, and
ten minutes. What a process maps from files the kernel may take back, so it does not count for a cgroup as it does for
the resident memory that the plan predicts: the limit is lower by what one process of the program maps.
The processes beside several ranks, which start them, have room of their own.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

RECIPES = pathlib.Path(__file__).resolve().parents[2] / "recipes"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
COMMON = ["train.steps=2", "schedule.warmup_steps=0", "train.validate_every_steps=0", "train.validate_every_epochs=0",
          "checkpoint.every_steps=0"]
LIMITS = [0.9, 0.82]  # of what the recipe needs as it is
MIB = 2**20
LAUNCHER = 32 * MIB  # of the processes that start several ranks and wait for them

# Some hundred MiB of activations each, so that there is something to change.
LLAMA = ["model.hidden_size=256", "model.intermediate_size=768", "model.vocab_size=8192", "model.max_positions=512",
         "data.seq_len=512", "train.micro_batch_size=16"]
GPT = ["model.hidden_size=256", "model.vocab_size=8192", "train.micro_batch_size=64"]
T5 = ["model.hidden_size=256", "train.micro_batch_size=256"]
VIT = ["model.hidden_size=256", "train.micro_batch_size=512"]
FP32 = "precision.preset=fp32"
BASES = [
    (1, "llama_smoke", [*LLAMA, "train.global_batch_size=16"]),
    (1, "llama_smoke", [*LLAMA, "train.global_batch_size=16", FP32]),
    (2, "llama_smoke", [*LLAMA, "train.global_batch_size=32", "shard.strategy=no_shard"]),
    (2, "llama_smoke", [*LLAMA, "train.global_batch_size=32", "shard.strategy=shard_grad_op", FP32]),
    (1, "gpt_smoke", [*GPT, "train.global_batch_size=64"]),
    (2, "gpt_smoke", [*GPT, "train.global_batch_size=128"]),
    (2, "gpt_smoke", [*GPT, "train.global_batch_size=128", FP32]),
    (1, "t5_smoke", [*T5, "train.global_batch_size=256", FP32]),
    (2, "t5_smoke", [*T5, "train.global_batch_size=512"]),
    (1, "deepvit_smoke", [*VIT, "train.global_batch_size=512"]),
    (2, "deepvit_smoke", [*VIT, "train.global_batch_size=1024", FP32]),
]


class Cgroup:
    """Limits the memory of what is started in it."""

    def __init__(self):
        v1 = CGROUPS / "memory"
        self.old = v1.is_dir()
        self.folder = (v1 if self.old else CGROUPS) / f"echelon-fit-{os.getpid()}"
        self.folder.mkdir()

    def limit(self, limit):
        if self.old:
            swap = self.folder / "memory.memsw.limit_in_bytes"
            if swap.exists():
                swap.write_text("-1")
            (self.folder / "memory.limit_in_bytes").write_text(str(limit))
            if swap.exists():
                swap.write_text(str(limit))
        else:
            (self.folder / "memory.max").write_text(str(limit))
            (self.folder / "memory.swap.max").write_text("0")

    def run(self, command):
        def enter():
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))

        return subprocess.run(command, capture_output=True, text=True, preexec_fn=enter, timeout=300)


def plan(echelon, base, *more):
    ranks, recipe, overrides = base
    command = [echelon, "plan", RECIPES / f"{recipe}.yaml", *COMMON, *overrides, "--tasks-per-node", ranks, *more,
               "--json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    report = json.loads(done.stdout or "{}")
    if done.returncode not in (0, 2) or "fits" not in report:  # 2: does not fit
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return report


def mapped_bytes(echelon):
    """Of files, in a process that has loaded the engine."""
    script = f"""
import subprocess, time
run = subprocess.Popen({[echelon, "train", str(RECIPES / "llama_smoke.yaml"), "train.steps=2000"]!r} + ["run.dir=" + {{}}],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(3)
print([line.split()[1] for line in open(f"/proc/{{run.pid}}/status") if line.startswith("RssFile")][0])
run.kill()
run.wait()
"""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", script.replace("{}", repr(folder + "/run"))], capture_output=True,
                              text=True, check=True)
    return int(done.stdout) * 1024


def train(echelon, cgroup, base, overrides, limit):
    ranks, recipe, own = base
    cgroup.limit(limit * ranks + (LAUNCHER if ranks > 1 else 0))
    with tempfile.TemporaryDirectory() as folder:
        several = ["--ranks", str(ranks)] if ranks > 1 else []
        done = cgroup.run([echelon, "train", str(RECIPES / f"{recipe}.yaml"), f"run.dir={folder}/run", *COMMON, *own,
                           *overrides, *several])
    return done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("echelon", type=pathlib.Path)
    arguments = parser.parse_args()
    echelon = str(arguments.echelon.resolve())
    cgroup = Cgroup()
    mapped = mapped_bytes(echelon)
    print(f"a process maps {mapped / MIB:.0f} MiB of files")
    ran = refused = proposals = refusals = 0
    try:
        for base in BASES:
            needs = plan(echelon, base)["memory"]["peak_bytes"]
            for share in LIMITS:
                limit = int(needs * share)
                fit = plan(echelon, base, "--memory", f"{limit}B", "--fit")
                name = f"{base[0]} x {base[1]} {' '.join(base[2])} in {limit / MIB:.0f} of {needs / MIB:.0f} MiB"
                as_it_is = train(echelon, cgroup, base, [], limit - mapped)
                refusals += 1
                refused += as_it_is.returncode != 0
                print(f"{name}: as it is {'RAN' if as_it_is.returncode == 0 else 'ended, as predicted'}")
                if not fit["proposals"]:
                    print("  nothing fits")
                    continue
                best = fit["proposals"][0]
                done = train(echelon, cgroup, base, best["overrides"], limit - mapped)
                proposals += 1
                ran += done.returncode == 0
                outcome = "ran" if done.returncode == 0 else f"FAILED: {done.stderr.strip().splitlines()[-1:]}"
                print(f"  {best['peak_bytes'] / MIB:.0f} MiB with {' '.join(best['overrides'])}: {outcome}", flush=True)
    finally:
        cgroup.folder.rmdir()
    print(f"{ran} of {proposals} proposals ran; {refused} of {refusals} that should not fit did not")


if __name__ == "__main__":
    main()
