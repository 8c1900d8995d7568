"""The local cluster and Slurm's commands, as far as drills need them."""
import os
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLURM_SH = ROOT / "cluster/local/slurm.sh"


class Failure(Exception):
    """A drill that did not go as it must; the text is for people."""


def call(*words, check=True):
    """Standard output of a command; with check=False "" of one that fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode and check:
        raise Failure(f"{' '.join(str(word) for word in words)}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout if done.returncode == 0 else ""


def wait_for(what, seconds, condition, nap=0.02):
    """Polls until the condition is true and returns what it is."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise Failure(f"waited {seconds} s in vain for {what}")
        time.sleep(nap)


def node(command, *words):
    call(SLURM_SH, command, *words)


def on_node(name, *words):
    return call(SLURM_SH, "exec", name, *words)


def restore_all():
    for i in range(4):
        node("restore", f"n{i}")


def field(job, name):
    """A field of `scontrol show job`, such as JobState."""
    for word in call("scontrol", "--oneliner", "show", "job", job, check=False).split():
        if word.startswith(name + "="):
            return word[len(name) + 1:]
    return ""


def rank_processes(job):
    """Rank -> (process id, node) of a job's ranks. Nodes share the process ids of the machine."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text().strip() != "echelon":
                continue
            variables = dict(entry.split("=", 1) for entry in (folder / "environ").read_bytes().decode(errors="replace").split("\0")
                             if "=" in entry)
        except OSError:
            continue
        if variables.get("SLURM_JOB_ID") == str(job) and "PMIX_RANK" in variables:
            found[int(variables["PMIX_RANK"])] = int(folder.name), variables["SLURMD_NODENAME"]
    return found


def signal_rank(job, rank, signal):
    """Sends it at once; returns the rank's node."""
    pid, where = wait_for(f"rank {rank} of job {job}", 60, lambda: rank_processes(job).get(rank))
    os.kill(pid, signal)
    return where
