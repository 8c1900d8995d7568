"""Consolidation beside `cp` + fsync of the same shards and beside PyTorch's dcp_to_torch_save of the same tensors.

Every round does all of them in turn on the same disk; the table gives medians, the least and the most, and medians of the
ratios within a round. Durable means flushed to disk; dcp_to_torch_save does not flush, and its time is that of the call
alone, without starting Python. Memory is the most the process held (ru_maxrss).
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

DCP_SAVE = """
import sys, h5py, torch, torch.distributed.checkpoint as dcp
state = {}
with h5py.File(sys.argv[1]) as file:
    file.visititems(lambda name, item: state.update({name: torch.from_numpy(item[...])}) if hasattr(item, "dtype") else None)
dcp.save(state, checkpoint_id=sys.argv[2], no_dist=True)
"""
DCP_TO_TORCH = """
import sys, time
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
began = time.perf_counter()
dcp_to_torch_save(sys.argv[1], sys.argv[2])
print(time.perf_counter() - began)
"""


def run(command):
    """Seconds, peak memory in bytes and output of a command."""
    began = time.perf_counter()
    child = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{command[0]} {command[1]} ended with {child.returncode}")
    return time.perf_counter() - began, usage.ru_maxrss * 1024, output.decode()


def evict(folder):
    """Drops the files below `folder` from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    os.sync()  # what is pending would be charged to the next one


class Bench:
    def __init__(self, args, scratch):
        self.args, self.scratch = args, scratch
        self.run = scratch / "run"
        subprocess.run([args.make, self.run, str(args.mib), "4"], check=True)
        self.shards = sorted(self.run.glob("checkpoints/*/shard-*"))
        whole = scratch / "whole.h5"
        self.consolidate("hdf5", whole)
        subprocess.run([sys.executable, "-c", DCP_SAVE, whole, scratch / "dcp"], check=True, stderr=subprocess.DEVNULL)
        remove(whole)

    def consolidate(self, form, output):
        return run([self.args.tool, "consolidate", self.run, "--to", form, "--optimizer", "--output", output])

    def copy(self):
        output = self.scratch / "copy"
        output.mkdir()
        script = 'out=$1; shift; cp "$@" "$out" && sync "$out"/* "$out"'
        took, memory, _ = run(["sh", "-c", script, "cp", output, *self.shards])
        remove(output)
        return took, memory

    def ours(self, form):
        output = self.scratch / "ours"
        took, memory, _ = self.consolidate(form, output)
        remove(output)
        return took, memory

    def peer(self):
        output = self.scratch / "peer.pt"
        _, memory, text = run([sys.executable, "-c", DCP_TO_TORCH, self.scratch / "dcp", output])
        remove(output)
        return float(text), memory

    def round(self):
        results = {}
        for name, step in (("cp + fsync", self.copy), ("consolidate, HDF5", lambda: self.ours("hdf5")),
                           ("consolidate, safetensors", lambda: self.ours("safetensors")), ("dcp_to_torch_save", self.peer)):
            if self.args.cold:
                evict(self.run)
                evict(self.scratch / "dcp")
            results[name] = step()
        return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--make", required=True)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="drop the sources from the page cache before each")
    parser.add_argument("--scratch", default="build", help="a folder on the disk to measure")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.scratch) as temporary:
        bench = Bench(args, pathlib.Path(temporary))
        size = sum(path.stat().st_size for path in bench.shards)
        rounds = [bench.round() for _ in range(args.repeat)]
    print(f"{size / 1e9:.2f} GB in {len(bench.shards)} shards, {args.repeat} rounds, sources "
          f"{'read from the disk' if args.cold else 'in the page cache'}")
    print(f"{'':26}{'s':>7}{'least':>7}{'most':>7}{'GB/s':>7}{'MiB':>7}{'times as fast as cp':>21}{'as dcp_to_torch':>17}")
    for name in rounds[0]:
        times = [r[name][0] for r in rounds]
        ratios = [statistics.median(r[peer][0] / r[name][0] for r in rounds) for peer in ("cp + fsync", "dcp_to_torch_save")]
        memory = max(r[name][1] for r in rounds) / 2**20
        print(f"{name:26}{statistics.median(times):7.2f}{min(times):7.2f}{max(times):7.2f}"
              f"{size / 1e9 / statistics.median(times):7.2f}{memory:7.0f}{ratios[0]:21.2f}{ratios[1]:17.2f}")
    print(json.dumps({"bytes": size, "cold": args.cold, "rounds": rounds}))


if __name__ == "__main__":
    main()
