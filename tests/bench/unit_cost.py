"""Host time that sharding adds to a unit and pass (forward or backward): many tiny units, so that nothing else counts.

Echelon counts it while it runs (casts, book-keeping, issuing; waiting apart). The peer is PyTorch FSDP2: the step of a
chain of tiny linear layers with fully_shard on each, less the step without, over units and passes. Then the step time of
Echelon's model over numbers of units and ranks, with as many units of the same layers and with all in one unit."""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

LAYERS, STEPS, WIDTH = 100, 30, 16


def run(binary, ranks, layers, *overrides):
    """(log of rank 0, seconds a step)."""
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "train", "recipes/smoke.yaml", "--ranks", str(ranks), f"run.dir={folder}/run",
                   f"model.layers={layers}", f"model.hidden_size={WIDTH}", "model.heads=2", "model.kv_heads=1",
                   f"model.intermediate_size={WIDTH}", "model.vocab_size=32", "model.max_positions=64",
                   "data.seq_len=8", "train.micro_batch_size=1", f"train.global_batch_size={ranks}",
                   f"train.steps={STEPS}", "train.threads_per_rank=1", "precision.param=bf16",
                   "checkpoint.every_steps=0", f"metrics.every_steps={STEPS}", "schedule.warmup_steps=0", *overrides]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
        metrics = (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()
        return (pathlib.Path(folder) / "run/logs/rank-0.log").read_text(), json.loads(metrics[-1])["step_time_s"]


def echelon(binary, ranks):
    log, _ = run(binary, ranks, LAYERS)
    found = re.findall(r"around \d+ passes of units: ([\d.]+) us each .*?, ([\d.]+) us each waiting", log)
    return tuple(map(float, found[-1]))


def peer():
    """Prints microseconds a unit and pass, on one rank (no peer to wait for)."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)

    def step_time(sharded):
        model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])
        if sharded:
            mesh = init_device_mesh("cpu", (1,))
            for layer in model:
                fully_shard(layer, mesh=mesh, mp_policy=policy)
            fully_shard(model, mesh=mesh, mp_policy=policy)
        else:
            model = model.to(torch.bfloat16)
        x = torch.randn(8, WIDTH, dtype=torch.float32 if sharded else torch.bfloat16)
        times = []
        for _ in range(STEPS):
            began = time.perf_counter()
            model(x).float().sum().backward()
            times.append(time.perf_counter() - began)
            model.zero_grad()
        return sorted(times)[len(times) // 2]

    print(json.dumps((step_time(True) - step_time(False)) / (2 * LAYERS) * 1e6))
    dist.destroy_process_group()


def fsdp2():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    done = subprocess.run([sys.executable, __file__, "peer"], env=environment, check=True, capture_output=True, text=True,
                          timeout=300)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/echelon"
    alone, both = echelon(binary, 1), echelon(binary, 2)
    theirs = fsdp2()
    print(f"Echelon, 1 rank     {alone[0]:8.1f} us a unit and pass")
    print(f"Echelon, 2 ranks    {both[0]:8.1f} us a unit and pass, {both[1]:.1f} us waiting")
    print(f"FSDP2, 1 rank       {theirs:8.1f} us a unit and pass ({theirs / alone[0]:.0f} times Echelon's)")
    print("| units | ranks | ms a step | in one unit | us a unit |\n|---|---|---|---|---|")
    for ranks in (1, 2, 4):
        for layers in (25, 50, 100, 200):
            units = run(binary, ranks, layers)[1] * 1e3
            one = run(binary, ranks, layers, "shard.wrap.policy=none")[1] * 1e3
            print(f"| {layers + 2} | {ranks} | {units:.1f} | {one:.1f} | {(units - one) / (layers + 2) * 1e3:.0f} |",
                  flush=True)


if __name__ == "__main__":
    peer() if sys.argv[1:] == ["peer"] else main()
