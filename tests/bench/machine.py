"""What a benchmark ran on: the machine, the versions of everything that took part, the commit, and what other programs
took of the processors meanwhile."""
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import resource
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
# Of the processor's flags those that change how fast matrices are multiplied.
INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16")
PEERS = ("torch", "transformers", "tokenizers", "sentencepiece", "safetensors", "h5py", "numpy")


def said_by(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout
    except OSError:
        return ""


def describe():
    """The machine, as the field `machine` has it."""
    processor = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", processor, re.M)
    flags = re.search(r"^flags\s*: (.*)$", processor, re.M)
    flags = flags[1].split() if flags else []
    system = re.search(r'^PRETTY_NAME="(.*)"$', pathlib.Path("/etc/os-release").read_text(), re.M)
    return {"cpu": model[1] if model else platform.machine(), "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "instruction_sets": [name for name in INSTRUCTION_SETS if name in flags], "virtual": "hypervisor" in flags,
            "kernel": platform.release(), "os": system[1] if system else platform.platform()}


def versions(echelon):
    """The versions of Echelon and all it is built from, and of every peer that is installed."""
    found = {"compiler": said_by("g++", "--version").partition("\n")[0]}
    for line in said_by(str(echelon), "--version").splitlines():
        if match := re.match(r"(\S.*?) (\d[^\s,]*)", line):
            found[match[1]] = match[2]
    if match := re.search(r"HDF5 ([\d.]+)", said_by(str(echelon.with_name("echelon-ckpt")), "--version")):
        found["HDF5"] = match[1]
    if match := re.search(r"\d+\.\d+\.\d+", said_by("mpirun", "--version")):
        found["Open MPI"] = match[0]
    for name in PEERS:
        try:
            found[f"{name} (Python)"] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit():
    """The commit, and whether anything but documents differs from it."""
    changed = said_by("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs", ":!README.md")
    return {"commit": said_by("git", "rev-parse", "--short=10", "HEAD").strip(), "dirty": bool(changed.strip())}


def busy_seconds():
    """Processor seconds that all programs of the machine took, and that its host took from it."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / TICKS


def own_seconds():
    """Processor seconds of this process and of all children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Others:
    """How many cores other programs used since its construction. All children must have ended, and been waited for."""

    def __init__(self):
        self.began = time.perf_counter(), busy_seconds() - own_seconds()

    def cores(self):
        took = time.perf_counter() - self.began[0]
        return max(0.0, round((busy_seconds() - own_seconds() - self.began[1]) / max(took, 0.1), 2))


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
    """Of the process and all that descend from it."""
    total = 0
    for member in family(pid):
        try:
            fields = pathlib.Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))  # its own, and those of children that have ended
    return total / TICKS


if __name__ == "__main__":
    print(json.dumps({"machine": describe(), "versions": versions(ROOT / "build/release/bin/echelon"), **commit()}, indent=1))
