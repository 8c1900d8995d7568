"""The peer: what torch.distributed.checkpoint (DCP) needs to save and load the state of the 179 M Llama of
recipes/llama_179m_synthetic.yaml: fp32 weights and the two states of Adam, 2.1 GB, cut by DTensor as FSDP2 does.

  checkpoint_dcp.py FOLDER [--repeat 3] [--layers 12]

Prints one JSON line for each measurement: `what`, `ranks`, `bytes`, `seconds` (median of the repetitions, slowest rank),
`seconds_all`, `peak_rss_bytes` (of the hungriest rank) and `base_rss_bytes` (of that rank before it began):
  save         dcp.save until it returns; DCP flushes its files, not the folder
  async_stall  dcp.async_save until it returns: training waits so long
  async_total  the same until the checkpoint is written
  load         dcp.load into existing tensors with the ranks that saved, files not in the page cache
  reshard      the same with four ranks
Every load is compared with what was saved.
"""
import argparse
import contextlib
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

RANKS = 2  # that save


def shapes(layers, hidden=768, intermediate=3072, vocabulary=50000, key_value=192):
    """Names and shapes of the weights, as transformers calls them."""
    found = {"model.embed_tokens.weight": (vocabulary, hidden), "lm_head.weight": (vocabulary, hidden),
             "model.norm.weight": (hidden,)}
    for layer in range(layers):
        block = f"model.layers.{layer}."
        for name, shape in {
                "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (key_value, hidden),
                "self_attn.v_proj": (key_value, hidden), "self_attn.o_proj": (hidden, hidden),
                "mlp.gate_proj": (intermediate, hidden), "mlp.up_proj": (intermediate, hidden),
                "mlp.down_proj": (hidden, intermediate), "input_layernorm": (hidden,),
                "post_attention_layernorm": (hidden,)}.items():
            found[block + name + ".weight"] = shape
    return found


def state(mesh, layers, fill):
    """{"model": ..., "optim": ...} of DTensors; with `fill` a function of name and position, else zeros."""
    everything = {"model": {}, "optim": {}}
    for number, (name, shape) in enumerate(shapes(layers).items()):
        for kind, (part, key) in enumerate((("model", name), ("optim", name + ".exp_avg"), ("optim", name + ".exp_avg_sq"))):
            if fill:
                generator = torch.Generator().manual_seed(3 * number + kind)
                whole = torch.randn(shape, generator=generator)
            else:
                whole = torch.zeros(shape)
            everything[part][key] = distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None)
    return everything


def local_bytes(everything):
    return sum(t.to_local().nbytes for part in everything.values() for t in part.values())


def difference(one, other):
    return sum(int(not torch.equal(one[part][key].to_local(), other[part][key].to_local()))
               for part in one for key in one[part])


def forget(folder):
    """Drops the files' clean pages from the page cache."""
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def current_rss():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Stopwatch:
    """Times of all ranks: the slowest counts."""

    def __init__(self, total):
        self.times, self.total = {}, total
        self.base = current_rss()

    @contextlib.contextmanager
    def measure(self, what):
        dist.barrier()
        began = time.perf_counter()
        yield
        self.add(what, time.perf_counter() - began)

    def add(self, what, seconds):
        slowest = torch.tensor(seconds, dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        self.times.setdefault(what, []).append(slowest.item())

    def report(self):
        memory = torch.tensor([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, self.base], dtype=torch.int64)
        dist.all_reduce(memory, op=dist.ReduceOp.MAX)
        for what, seconds in self.times.items():
            if dist.get_rank() == 0:
                print(json.dumps({"what": what, "ranks": dist.get_world_size(), "bytes": self.total,
                                  "seconds": statistics.median(seconds), "seconds_all": seconds,
                                  "peak_rss_bytes": memory[0].item(), "base_rss_bytes": memory[1].item(),
                                  "torch": torch.__version__}), flush=True)


def rank_folder(args, name):
    """A fresh folder that all ranks see."""
    folder = pathlib.Path(args.folder) / name
    if dist.get_rank() == 0:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    dist.barrier()
    return folder


def save(args, everything, watch):
    for _ in range(args.repeat):
        folder = rank_folder(args, "saved")
        with watch.measure("save"):
            dcp.save(everything, checkpoint_id=folder)


def async_save(args, everything, watch):
    for _ in range(args.repeat):
        folder = rank_folder(args, "saved")
        dist.barrier()
        began = time.perf_counter()
        pending = dcp.async_save(everything, checkpoint_id=folder)
        stall = time.perf_counter() - began
        pending.result()
        total = time.perf_counter() - began
        watch.add("async_stall", stall)
        watch.add("async_total", total)


def load(args, everything, watch):
    what = "reshard" if dist.get_world_size() != RANKS else "load"
    target = state(everything["mesh"], args.layers, fill=False)
    expected = {part: everything[part] for part in ("model", "optim")}
    for _ in range(args.repeat):
        if dist.get_rank() == 0:
            forget(pathlib.Path(args.folder) / "saved")
        with watch.measure(what):
            dcp.load(target, checkpoint_id=pathlib.Path(args.folder) / "saved")
    if difference(expected, target):
        sys.exit(f"{what}: what was loaded differs from what was saved")


def rank_main(args):
    torch.set_num_threads(1)
    dist.init_process_group("cpu:gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    everything = state(mesh, args.layers, fill=True)
    total = torch.tensor(local_bytes(everything))
    dist.all_reduce(total)
    watch = Stopwatch(total.item())
    if args.part == "load":
        everything["mesh"] = mesh
    {"save": save, "async": async_save, "load": load}[args.part](args, everything, watch)
    watch.report()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where to write, on the disk to be measured; needs twice the bytes")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--part", choices=("save", "async", "load"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        return rank_main(args)
    # Each measurement in processes of its own, so that its peak memory is its own.
    for part, ranks in (("async", RANKS), ("save", RANKS), ("load", RANKS), ("load", 2 * RANKS)):
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}",
                        __file__, args.folder, "--part", part, "--repeat", str(args.repeat), "--layers", str(args.layers)],
                       check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    shutil.rmtree(pathlib.Path(args.folder) / "saved")


if __name__ == "__main__":
    main()
