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

# What Prometheus shows: place in a line of metrics.jsonl | name, with a label where a place has several numbers | meaning.
# The last word of a place names a number, some numbers ("min,max") or all ("*"). This is the only list of names:
# `echelon` reads it from here when it is built (src/metrics/CMakeLists.txt).
NAMES = """
step | echelon_step | Optimizer steps done.
loss | echelon_loss | Training loss, nats.
validation_loss | echelon_validation_loss | Validation loss, nats; only in lines of a validation.
validation_loss/* | echelon_source_validation_loss{source} | Validation loss on one source, nats; only in lines of a validation.
validation_accuracy | echelon_validation_accuracy | Share of samples classified correctly; only in lines of a validation.
rouge1 | echelon_rouge_words | ROUGE-1 of generated texts; only in lines of a validation.
rouge2 | echelon_rouge_pairs | ROUGE-2 of generated texts; only in lines of a validation.
rougeL | echelon_rouge_longest | ROUGE-L of generated texts; only in lines of a validation.
eval/* | echelon_evaluation_score{score} | Score of a task, 0 to 1; only in lines of an evaluation.
rewards/* | echelon_reward{of} | Reward of answers, or share of pairs ranked right; only with preferences.
logps/* | echelon_answer_log_probability{of} | Log-probability of answers; only with preferences.
lr | echelon_learning_rate | Learning rate.
grad_norm | echelon_gradient_norm | Norm of the gradients before clipping.
loss_scale | echelon_loss_scale | Factor of the loss; only with fp16.
epoch | echelon_epoch | Passes over the data so far.
tokens | echelon_tokens | Tokens trained on so far.
samples | echelon_samples | Samples trained on so far.
tokens_per_s | echelon_tokens_per_second | Tokens a second of all ranks together.
samples_per_s | echelon_samples_per_second | Samples a second of all ranks together.
step_time_s | echelon_step_seconds | Duration of a step.
comm_wait_s | echelon_communication_wait_seconds | Part of a step that waits for communication.
data_wait_s | echelon_data_wait_seconds | Part of a step that waits for data.
save_stall_s | echelon_save_stall_seconds | How long training waited for saves since the line before.
skipped_steps | echelon_skipped_steps | Steps left out because of values that were not finite.
mfu | echelon_model_flops_utilization | Used part of the devices' peak arithmetic, 0 to 1.
model_tflops_per_s | echelon_model_tflops_per_second | Model TFLOP a second of a rank.
peak_rss_bytes | echelon_peak_rss_bytes | Largest host memory of a rank.
peak_device_bytes | echelon_peak_device_bytes | Largest device memory of a rank.
tensor_peak_bytes | echelon_tensor_peak_bytes | Most bytes of tensors on the device that computes.
sent_bytes | echelon_sent_bytes | Bytes a rank sent to others in the last step.
breakdown_s/* | echelon_step_part_seconds{part} | What a step's time goes into, mean over ranks.
spread/step_time_s/min,median,max | echelon_rank_step_seconds{stat} | Duration of a step, over ranks.
spread/work_s/min,median,max | echelon_rank_work_seconds{stat} | Part of a step that does not wait for other ranks, over ranks.
spread/work_s/max_rank | echelon_slowest_rank | Number of the rank that works longest.
spread/comm_wait_s/min,median,max | echelon_rank_communication_wait_seconds{stat} | Waiting for communication, over ranks.
spread/data_wait_s/min,median,max | echelon_rank_data_wait_seconds{stat} | Waiting for data, over ranks.
spread/peak_rss_bytes/min,median,max | echelon_rank_peak_rss_bytes{stat} | Host memory, over ranks.
memory_bytes/* | echelon_memory_bytes{category} | Memory by purpose, largest over ranks.
unit_grad_norms/* | echelon_unit_gradient_norm{unit} | Norm of a unit's gradients before clipping.
time | echelon_last_line_timestamp_seconds | When the run last wrote a line, seconds since 1970.
"""


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
    """Compared, not converted: an integer of JSON may have more digits than a float can hold."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -sys.float_info.max <= value <= sys.float_info.max


def label(name):
    """A text between the quotes of a label."""
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def found(values, place):
    """[(word or None, number)] at a place of a line: of an object, or of names that begin with the place."""
    *outer, last = place.split("/")
    begin = place[:-1]
    flat = {name[len(begin):]: number for name, number in values.items() if last == "*" and name.startswith(begin)}
    for word in outer:
        values = values.get(word) if isinstance(values, dict) else None
    values = flat or values
    if not isinstance(values, dict):
        return []
    if last != "*" and "," not in last:
        return [(None, values[last])] if is_number(values.get(last)) else []
    words = sorted(values) if last == "*" else last.split(",")
    return [(word, values[word]) for word in words if is_number(values.get(word)) and word.isprintable()]


def page(runs):
    """The text for Prometheus of {run name: (values, time)}."""
    lines = []
    for row in NAMES.strip().splitlines():
        place, name, meaning = row.split(" | ")
        name, _, word = name.rstrip("}").partition("{")
        samples = []
        for run, (values, written) in runs.items():
            # The clock of the file's server, by which its age is judged too.
            for member, value in found({**values, "time": written}, place):
                more = f',{word}="{label(member)}"' if member is not None else ""
                samples.append(f'{name}{{run="{label(run)}"{more}}} {value!r}')
        if samples:
            lines.extend((f"# HELP {name} {meaning}", f"# TYPE {name} gauge", *samples))
    return "".join(line + "\n" for line in lines)


def collect(folder, max_age_s):
    oldest = time.time() - max_age_s
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        names = []  # nobody has trained yet
    newest = {name: newest_line(os.path.join(folder, name, "metrics.jsonl"), oldest) for name in names}
    # Names that are not text cannot be labels.
    return {name: line for name, line in newest.items() if line and name.isprintable()}


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
