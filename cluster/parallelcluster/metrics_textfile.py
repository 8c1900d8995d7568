#!/usr/bin/env python3
"""Turns the newest line of each run's metrics.jsonl into a Prometheus text file.

  metrics_textfile.py --runs /fsx/runs --output /var/lib/prometheus/node-exporter/echelon.prom

node_exporter reads the file (--collector.textfile.directory), and Prometheus with it; node_setup.sh calls this every 30
seconds on the head node. Runs without a new line for --max-age-s (default a day) are left out. The file is replaced in
one rename. Exit codes: 0 done, 2 usage, 3 the file cannot be written. Needs only Python 3.9.
"""
import argparse
import json
import math
import os
import pathlib
import stat
import sys
import time

# A line of metrics.jsonl has a few hundred bytes; what stands further from the end is older than the newest line.
TAIL_BYTES = 1 << 16

# key in metrics.jsonl: (name here, what it is)
GAUGES = {
    "step": ("echelon_step", "Optimizer steps done."),
    "loss": ("echelon_loss", "Training loss, nats."),
    "validation_loss": ("echelon_validation_loss", "Validation loss, nats; only in lines of a validation."),
    "lr": ("echelon_learning_rate", "Learning rate."),
    "grad_norm": ("echelon_gradient_norm", "Norm of the gradients before clipping."),
    "tokens": ("echelon_tokens", "Tokens trained on so far."),
    "samples": ("echelon_samples", "Samples trained on so far."),
    "tokens_per_s": ("echelon_tokens_per_second", "Tokens a second of all ranks together."),
    "samples_per_s": ("echelon_samples_per_second", "Samples a second of all ranks together."),
    "step_time_s": ("echelon_step_seconds", "Duration of a step."),
    "comm_wait_s": ("echelon_communication_wait_seconds", "Part of a step that waits for communication."),
    "data_wait_s": ("echelon_data_wait_seconds", "Part of a step that waits for data."),
    "skipped_steps": ("echelon_skipped_steps", "Steps left out because of values that were not finite."),
    "mfu": ("echelon_model_flops_utilization", "Used part of the devices' peak arithmetic, 0 to 1."),
    "peak_rss_bytes": ("echelon_peak_rss_bytes", "Largest host memory of a rank."),
    "peak_device_bytes": ("echelon_peak_device_bytes", "Largest device memory of a rank."),
}
AGE = ("echelon_last_line_timestamp_seconds", "When the run last wrote a line, seconds since 1970.")


def newest_line(path, oldest):
    """The last whole line of a metrics.jsonl as an object and the time of the file; None if there is none or it is old.

    Run folders belong to users and this runs as root: nothing but a regular file is opened, and no link is followed.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_mtime < oldest:
            return None
        file.seek(max(0, status.st_size - TAIL_BYTES))
        lines = file.read(TAIL_BYTES).split(b"\n")[:-1]  # behind the last newline: a line that is being written
    for line in reversed(lines):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(values, dict) and isinstance(values.get("step"), int):
            return values, status.st_mtime
    return None


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def label(name):
    """A run's name between the quotes of a label."""
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def page(runs):
    """The text for Prometheus of {run name: (values, time)}."""
    lines = []

    def gauge(metric, samples):
        if samples:
            lines.extend((f"# HELP {metric[0]} {metric[1]}", f"# TYPE {metric[0]} gauge"))
            lines.extend(f'{metric[0]}{{run="{label(run)}"}} {value!r}' for run, value in samples)

    for key, metric in GAUGES.items():
        gauge(metric, [(run, values[key]) for run, (values, _) in runs.items() if is_number(values.get(key))])
    gauge(AGE, [(run, written) for run, (_, written) in runs.items()])
    return "".join(line + "\n" for line in lines)


def collect(folder, max_age_s):
    oldest = time.time() - max_age_s
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        names = []  # nobody has trained yet
    found = {name: newest_line(os.path.join(folder, name, "metrics.jsonl"), oldest) for name in names}
    # Names that are not text cannot be labels.
    return {name: line for name, line in found.items() if line and name.isprintable()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", required=True, metavar="FOLDER", help="holds one folder for each run")
    parser.add_argument("--output", required=True, metavar="FILE", help="the text file; its name must end in .prom")
    parser.add_argument("--max-age-s", type=float, default=86400.0, metavar="SECONDS")
    options = parser.parse_args()
    if not options.output.endswith(".prom"):
        parser.error(f"--output {options.output}: node_exporter reads only files that end in .prom")
    if not (math.isfinite(options.max_age_s) and options.max_age_s > 0):
        parser.error(f"--max-age-s {options.max_age_s}: expected a positive number of seconds")
    try:
        text = page(collect(options.runs, options.max_age_s))
        temporary = pathlib.Path(f"{options.output}.{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(0o644)  # node_exporter is another user
        temporary.replace(options.output)
    except OSError as error:
        print(f"metrics_textfile.py: cannot write {options.output} or list {options.runs}: {error.strerror}", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
