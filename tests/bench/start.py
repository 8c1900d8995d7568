"""From the command to the first step of the 179 M Llama on two local ranks: seconds, and processor seconds of all
processes together, which a busy machine changes less.

Counted are the first line, the model (the line that describes the data follows it), and the end of the first step. With
`--beside OTHER` another build of the program is measured in turn.
"""
import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

RECIPE = "recipes/llama_179m_synthetic.yaml"
TICKS = os.sysconf("SC_CLK_TCK")
MARKS = {"first line": lambda line: True, "model": lambda line: line.startswith("data: "),
         "first step": lambda line: line.startswith("step 1/")}


def family(pid):
    """The process and all that descend from it."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (ValueError, OSError):
            continue
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found


def processor_seconds(pid):
    total = 0
    for member in family(pid):
        try:
            fields = pathlib.Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))  # its own, and those of children that have ended
    return total / TICKS


def start(binary, ranks):
    """name -> (seconds, processor seconds) of each mark."""
    marks = dict(MARKS)
    reached = {}
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "train", RECIPE, "--ranks", str(ranks), f"train.global_batch_size={2 * ranks}",
                   "train.threads_per_rank=1", f"run.dir={folder}/run"]
        began = time.perf_counter()
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
        for line in job.stderr:
            for name in [name for name, is_it in marks.items() if is_it(line)]:
                reached[name] = (time.perf_counter() - began, processor_seconds(job.pid))
                del marks[name]
            if not marks:
                break
        for member in reversed(family(job.pid)):
            try:
                os.kill(member, signal.SIGKILL)  # what follows is not measured
            except ProcessLookupError:
                pass
        job.wait()
    if marks:
        raise SystemExit(f"{binary} ended before: {', '.join(marks)}")
    return reached


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--echelon", required=True)
    parser.add_argument("--beside", help="another build")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    builds = {"echelon": args.echelon} | ({"beside": args.beside} if args.beside else {})
    measured = {name: [] for name in builds}
    for _ in range(args.repeat):
        for name, binary in builds.items():
            measured[name].append(start(binary, args.ranks))
    for name, rounds in measured.items():
        for mark in MARKS:
            wall = statistics.median(r[mark][0] for r in rounds)
            cpu = statistics.median(r[mark][1] for r in rounds)
            print(f"{name:<8} to the {mark:<11} {wall:6.2f} s, {cpu:6.2f} processor seconds")


if __name__ == "__main__":
    main()
