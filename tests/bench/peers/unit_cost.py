"""The peer of unit_cost: host time that PyTorch FSDP2 adds to a unit and pass (forward or backward). A chain of tiny linear
layers with fully_shard on each, less the same without, over units and passes; on one rank, which has no other to wait for.
"""
import json
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

LAYERS, STEPS, WIDTH = 100, 30, 16


def main():
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

    print(json.dumps({"host_s": (step_time(True) - step_time(False)) / (2 * LAYERS)}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
