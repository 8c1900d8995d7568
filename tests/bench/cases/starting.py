"""From the command to the first step."""
import subprocess
import sys
import time

import echelon_runs
from machine import ROOT
from recorder import Failed

SMOKE, LLAMA = "recipes/smoke.yaml", "recipes/llama_179m_synthetic.yaml"


def first_step(line):
    return line.startswith("step 1/")


def first_finished_step(bench):
    """Seconds until metrics.jsonl holds the first step."""
    with bench.scratch() as folder:
        metrics = folder / "run/metrics.jsonl"
        command = [bench.echelon, "train", SMOKE, "--ranks", 2, "train.steps=1", "checkpoint.every_steps=0", f"run.dir={folder}/run"]
        began = time.perf_counter()
        job = bench.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not (metrics.exists() and metrics.stat().st_size > 0):
            if job.poll() not in (None, 0):
                raise Failed(f"echelon train ended with {job.returncode}: {job.stderr.read()[-1000:]}")
            time.sleep(0.001)
        took = time.perf_counter() - began
        job.communicate()
    return {"first_step_s": took}


def torchrun(script, ranks, *options):
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}",
            ROOT / "tests/bench/peers" / script, *options]


def empty_job(bench):
    began = time.perf_counter()
    bench.run(torchrun("empty_job.py", 2))
    return {"first_step_s": time.perf_counter() - began}


def launch(bench):
    """From the command to the first finished step of a tiny model on two ranks, beside an empty torchrun job"""
    bench.metric("first_step_s", "time from the command", "s")
    case = bench.case("launch", "launch", {"echelon": "Echelon, first step done", "torchrun": "torchrun + gloo, empty job"})
    bench.wanted("launch")
    for _ in bench.rounds(full=7, quick=5, warm_up=1):
        case.measure("echelon", first_finished_step, bench)
        case.measure("torchrun", empty_job, bench)


def start(bench):
    """From the command to the first step of the 179 M Llama on two ranks, beside torchrun with PyTorch FSDP2"""
    bench.metric("first_step_s", "from the command to the end of the first step", "s")
    bench.metric("first_step_cpu_s", "processor seconds until then", "s")
    bench.metric("model_s", "from the command until the model is built", "s", None)
    case = bench.case("start", "179 M Llama", {"echelon": "Echelon", "fsdp2": "torchrun, FSDP2"})
    bench.wanted("start")
    marks = {"model": lambda line: line.startswith("data: "), "first_step": first_step}

    def ours():
        with bench.scratch() as folder:
            command = echelon_runs.command(bench, LLAMA, 2, folder, "train.global_batch_size=4", "train.steps=2")
            return found(echelon_runs.seconds_to(bench, command, marks))

    def theirs():
        command = torchrun("train.py", 2, "--engine", "fsdp2", "--model", "llama", "--steps", 1)
        return found(echelon_runs.seconds_to(bench, command, {"first_step": first_step}, pipe="stdout"))

    def found(reached):
        values = {"first_step_s": reached["first_step"][0], "first_step_cpu_s": reached["first_step"][1]}
        return values | ({"model_s": reached["model"][0]} if "model" in reached else {})

    for _ in bench.rounds(full=5, quick=2):
        case.measure("echelon", ours)
        case.measure("fsdp2", theirs)
