"""One rank of a PyTorch run for fsdp2_oracle.py, started by torchrun: the same model, weights, ids and optimizer under
FSDP2 (fully_shard) and under plain data parallelism (whole gradients all-reduced, as DDP). Rank 0 writes the losses."""
import copy
import json
import os
import pathlib
import sys

import numpy
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

import dump
from reference_models import mean_loss

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def load(job):
    model = LlamaForCausalLM(LlamaConfig.from_dict(job["config"])).float()
    weights = {name: torch.from_numpy(values) for name, values in numpy.load(job["weights"]).items()}
    model.load_state_dict(weights)
    return model


def batch(job, step):
    """This rank's rows of the step."""
    ids = dump.read_ids(pathlib.Path(job["ids"]), job["seq_len"] + 1)
    rows = job["global_batch_size"] // dist.get_world_size()
    first = step * job["global_batch_size"] + dist.get_rank() * rows
    return ids[first:first + rows]


def adamw(parameters, job):
    return torch.optim.AdamW(parameters, lr=job["lr"], betas=tuple(job["betas"]), eps=1e-8,
                             weight_decay=job["weight_decay"])


def over_ranks(loss):
    total = loss.detach().double()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def fsdp2(job, dtype):
    model = load(job)
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optim = adamw(model.parameters(), job)
    losses = []
    for step in range(job["steps"]):
        loss = mean_loss(model, batch(job, step))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), job["clip"])
        optim.step()
        optim.zero_grad(set_to_none=True)
        losses.append(over_ranks(loss))
    return losses


def data_parallel(job, dtype):
    master = load(job)
    model = copy.deepcopy(master).to(dtype)
    optim = adamw(master.parameters(), job)
    losses = []
    for step in range(job["steps"]):
        with torch.no_grad():
            for own, whole in zip(model.parameters(), master.parameters()):
                own.copy_(whole)
                own.grad = None
        loss = mean_loss(model, batch(job, step))
        loss.backward()
        for own, whole in zip(model.parameters(), master.parameters()):
            whole.grad = own.grad.float() / dist.get_world_size()
            dist.all_reduce(whole.grad)
        torch.nn.utils.clip_grad_norm_(master.parameters(), job["clip"])
        optim.step()
        losses.append(over_ranks(loss))
    return losses


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    jobs = json.loads(pathlib.Path(sys.argv[1]).read_text())
    losses = [{"fsdp2": fsdp2(job, DTYPES[job["param"]]), "data_parallel": data_parallel(job, DTYPES[job["param"]])}
              for job in jobs]
    if dist.get_rank() == 0:
        pathlib.Path(sys.argv[2]).write_text(json.dumps(losses))
    dist.barrier()
    os._exit(0)  # all is written; gloo's threads now and then abort the process when the group is destroyed


if __name__ == "__main__":
    main()
