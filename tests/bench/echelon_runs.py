"""Runs of `echelon train` that benchmarks share."""
import json
import os
import signal
import statistics
import time

import machine
import recorder


def end(bench, job):
    """Ends a job and all its ranks at once: what follows is not measured."""
    for member in reversed(machine.family(job.pid)):
        try:
            os.kill(member, signal.SIGKILL)
        except ProcessLookupError:
            pass
    job.wait()
    bench.reap()


def command(bench, recipe, ranks, folder, *overrides):
    return [bench.echelon, "train", recipe, "--ranks", ranks, "train.device=cpu", "train.threads_per_rank=1",
            "metrics.every_steps=1", f"run.dir={folder}/run", *overrides]


def until_step(bench, recipe, ranks, steps, *overrides):
    """The lines of metrics.jsonl of the first `steps` steps; then the run is ended, because its checkpoint is not measured."""
    with bench.scratch() as folder:
        job = bench.start(command(bench, recipe, ranks, folder, f"train.steps={steps + 1}", *overrides),
                          stdout=recorder.subprocess.DEVNULL, stderr=recorder.subprocess.PIPE, text=True)
        said = []
        try:
            for line in job.stderr:
                said.append(line)
                if line.startswith(f"step {steps}/"):
                    break
            metrics = folder / "run/metrics.jsonl"
            lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
        finally:
            end(bench, job)
    if len(lines) < steps:
        raise recorder.Failed("echelon train ended early:\n" + "".join(said[-20:]))
    return lines


def steps(bench, recipe, ranks, count, *overrides):
    """Median step without the first, and peak memory, of `count` + 1 steps."""
    lines = until_step(bench, recipe, ranks, count + 1, *overrides)
    return {"step_s": statistics.median(line["step_time_s"] for line in lines[1:]),
            "peak_rss_bytes": lines[-1]["peak_rss_bytes"]}


def whole(bench, recipe, ranks, *overrides):
    """All lines of metrics.jsonl and rank 0's log of a run that goes to its end."""
    with bench.scratch() as folder:
        bench.run(command(bench, recipe, ranks, folder, *overrides))
        lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
        return lines, (folder / "run/logs/rank-0.log").read_text()


def seconds_to(bench, words, marks, pipe="stderr"):
    """Starts a program and ends it when all marks were reached. marks: {name: is this the line?}; gives
    {name: (seconds, processor seconds of all its processes)}."""
    left, reached = dict(marks), {}
    streams = {"stdout": recorder.subprocess.DEVNULL, "stderr": recorder.subprocess.DEVNULL, pipe: recorder.subprocess.PIPE}
    began = time.perf_counter()
    job = bench.start(words, text=True, start_new_session=True, **streams)
    try:
        for line in getattr(job, pipe):
            for name in [name for name, is_it in left.items() if is_it(line)]:
                reached[name] = time.perf_counter() - began, machine.processor_seconds(job.pid)
                del left[name]
            if not left:
                break
    finally:
        end(bench, job)
    if left:
        raise recorder.Failed(f"{words[0]} {words[1]} ended before: {', '.join(left)}")
    return reached
