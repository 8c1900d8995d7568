"""Checkpoints: saved, loaded, loaded by another number of ranks, and joined, beside PyTorch's and what the disk gives."""
import os
import statistics
import sys
import time

from machine import ROOT
from recorder import LeftOut, remove

DCP = ROOT / "tests/bench/peers/checkpoint_dcp.py"
LAYERS = 12

DCP_SAVE = """
import sys, h5py, torch, torch.distributed.checkpoint as dcp
state = {}
with h5py.File(sys.argv[1]) as file:
    file.visititems(lambda name, item: state.update({name: torch.from_numpy(item[...])}) if hasattr(item, "dtype") else None)
dcp.save(state, checkpoint_id=sys.argv[2], no_dist=True)
"""
DCP_TO_TORCH = """
import resource, sys, time
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
began = time.perf_counter()
dcp_to_torch_save(sys.argv[1], sys.argv[2])
print(time.perf_counter() - began)
"""
# case: (title, what checkpoint_bench calls it, what checkpoint_dcp.py does, what memory or disk alone take)
PARTS = {
    "save": ("save", "save", "save", "raw_write"),
    "async_stall": ("asynchronous save, training waits", "async_save_stall", "async_stall", "memcpy"),
    "async_total": ("asynchronous save, until durable", "async_save", "async_total", "raw_write"),
    "load": ("load", "load", "load", "raw_read"),
    "reshard": ("load on 4 ranks", "reshard", "reshard", None),
}
LIMITS = {"raw_write": "raw write of as many bytes", "raw_read": "raw read of as many bytes", "memcpy": "one memory copy of the bytes"}


def checkpoint(bench):
    """Save, asynchronous save, load and load on other ranks of the state of a 179 M model, beside PyTorch's DCP"""
    bench.metric("s", "time", "s")
    bench.metric("extra_bytes", "memory of a rank beside the state", "bytes")
    program = bench.program("checkpoint_bench")
    layers = bench.pick(LAYERS, LAYERS, 1)
    cases = {}
    for name in bench.wanted(*PARTS):
        title, _, _, limit = PARTS[name]
        cases[name] = bench.case(name, title, {"echelon": "Echelon", "dcp": "DCP"} | ({limit: LIMITS[limit]} if limit else {}),
                                 bounds=[limit] if limit else [])
    for _ in bench.rounds(full=3, quick=2, cases=list(cases.values())):
        with bench.scratch() as folder:
            our_command = [program, folder / "ours", 2, 4, 1, layers]
            ours = bench.json_lines(our_command)
            remove(folder / "ours")
            their_command = [sys.executable, DCP, folder / "dcp", "--repeat", 1, "--layers", layers]
            theirs = {line["what"]: line for line in bench.json_lines(their_command)}
            record(bench, cases, ours, theirs, [bench.text(our_command)], [bench.text(their_command)])


def memory_saves(bench):
    """Steps of the 179 M Llama on two nodes while their memory checkpoints are made, beside the same steps without"""
    if os.geteuid() != 0:
        raise LeftOut("a local Slurm cluster needs root")
    bench.metric("step_s", "time per step", "s", None)
    bench.metric("stall_s", "training waits at a save", "s", None)
    bench.metric("saves", "saves that were complete", "", None)
    bench.lay_out("rows", compares=False)
    sides = {"without": "without memory checkpoints", "with": "one memory checkpoint after the other"}
    case = bench.case("llama", "179 M Llama", sides, ours=())
    bench.wanted("llama")
    cluster = {"ECHELON_SLURM_DIR": "/var/lib/echelon-slurm-bench", "ECHELON_SLURM_NET": "10.84.0", "ECHELON_SLURM_CPUS": "16"}
    cluster = {name: os.environ.get(name, value) for name, value in cluster.items()}
    for _ in bench.rounds(full=3, quick=1):
        with bench.scratch() as folder:
            command = ["cluster/local/slurm.sh", "run", "2", "--", sys.executable, "tests/bench/memory_steps.py", bench.echelon,
                       "recipes/llama_179m_synthetic.yaml", bench.pick(30, 18, 4), folder]
            for line in bench.json_lines(command, cluster):
                side = line.pop("what")
                case.fields["commands"][side] = [bench.text(command, cluster)]
                case.add(side, **{name: value for name, value in line.items() if value is not None})
    slower = [round_["with"]["step_s"] / round_["without"]["step_s"] - 1 for round_ in case.fields["rounds"]]
    bench.fact("slower", statistics.median(slower), "share", "by which steps are longer while memory checkpoints are made")
    bench.notes.append("two ranks of one thread, each a node of its own, on the two cores of one machine: no core is left for the saves")


def record(bench, cases, ours, theirs, our_command, their_command):
    for name, case in cases.items():
        _, mine, other, limit = PARTS[name]
        line = next(line for line in ours if line["what"] == mine)
        case.add("echelon", s=line["seconds"], **extra(name, line["extra_bytes"] + staged(name, theirs)))
        case.add("dcp", s=theirs[other]["seconds"], **extra(name, theirs[other]["peak_rss_bytes"] - theirs[other]["base_rss_bytes"]))
        case.fields["commands"] = {"echelon": our_command, "dcp": their_command} | ({limit: our_command} if limit else {})
        if limit:
            case.add(limit, s=next(line["seconds"] for line in ours if line["what"] == limit))
        if name == "reshard":
            needed = theirs["reshard"]["bytes"]
            bench.fact("state_bytes", needed, "bytes", "weights and the two states of AdamW, fp32")
            bench.fact("reshard_reads", line["count"] / needed, "ratio", "bytes read over bytes needed, by 4 ranks what 2 saved")


def extra(name, size):
    """An asynchronous save takes its memory as a whole, not while training waits."""
    return {} if name == "async_stall" else {"extra_bytes": size}


def staged(name, theirs):
    """The copy of a rank's state that an asynchronous save keeps, which checkpoint_bench has made before it measures."""
    return theirs["async_total"]["bytes"] // 2 if name == "async_total" else 0


def evict(folder):
    """Drops the files below `folder` from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def timed(bench, command):
    """Seconds, peak memory and output of a command."""
    began = time.perf_counter()
    job = bench.start(command, stdout=-1, stderr=-3)
    output = job.stdout.read().decode()
    _, status, usage = os.wait4(job.pid, 0)
    job.returncode = os.waitstatus_to_exitcode(status)
    if job.returncode:
        raise SystemExit(f"{command[0]} {command[1]} ended with {job.returncode}: {output[-500:]}")
    return time.perf_counter() - began, usage.ru_maxrss * 1024, output


def consolidate(bench):
    """Shards joined into one HDF5 file or safetensors, flushed, beside `cp` with fsync and PyTorch's dcp_to_torch_save"""
    bench.metric("s", "time", "s")
    bench.metric("peak_rss_bytes", "memory", "bytes")
    make = bench.program("make_bench_checkpoint")
    sides = {"hdf5": "consolidate, HDF5", "safetensors": "consolidate, safetensors", "cp": "cp + fsync", "dcp_to_torch": "dcp_to_torch_save"}
    titles = {"cached": "in the page cache", "disk": "from the disk"}
    with bench.scratch() as folder:
        run = folder / "run"
        bench.run([make, run, bench.pick(2048, 2048, 64), 4])
        shards = sorted(run.glob("checkpoints/*/shard-*"))
        bench.fact("shard_bytes", sum(path.stat().st_size for path in shards), "bytes", "in four shards, all joined")
        bench.run([bench.tool, "consolidate", run, "--to", "hdf5", "--optimizer", "--output", folder / "whole.h5"])
        bench.run([sys.executable, "-c", DCP_SAVE, folder / "whole.h5", folder / "dcp"])
        remove(folder / "whole.h5")

        def joined(form, output):
            def measured():
                took, memory, _ = timed(bench, [bench.tool, "consolidate", run, "--to", form, "--optimizer", "--output", output])
                remove(output)
                return {"s": took, "peak_rss_bytes": memory}
            return measured

        def copied():
            (folder / "copy").mkdir()
            script = 'out=$1; shift; cp "$@" "$out" && sync "$out"/* "$out"'
            took, memory, _ = timed(bench, ["sh", "-c", script, "cp", folder / "copy", *shards])
            remove(folder / "copy")
            return {"s": took, "peak_rss_bytes": memory}

        def theirs():
            # Its time is that of the call alone, without starting Python, and it does not flush.
            _, memory, said = timed(bench, [sys.executable, "-c", DCP_TO_TORCH, folder / "dcp", folder / "peer.pt"])
            remove(folder / "peer.pt")
            return {"s": float(said), "peak_rss_bytes": memory}

        for name in bench.wanted(*titles):
            case = bench.case(name, titles[name], sides, ours=("hdf5", "safetensors"))
            parts = {"hdf5": joined("hdf5", folder / "one.h5"), "safetensors": joined("safetensors", folder / "tensors"),
                     "cp": copied, "dcp_to_torch": theirs}
            for _ in bench.rounds(full=3, quick=1):
                for side, function in parts.items():
                    if name == "disk":
                        evict(run)
                        evict(folder / "dcp")
                    case.measure(side, function)
