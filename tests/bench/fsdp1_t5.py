"""The peer: T5 small fine-tuned with PyTorch FSDP1 on CPU ranks (gloo), set up as the tutorial on advanced FSDP does.

Started once a rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set (what torchrun does). transformers' T5, one
unit a T5Block, parameters, reduction and buffers in bf16, AdamW, batches padded to the full length with an attention
mask. --varied: lengths vary as WikiHow's, which changes nothing but the mask. Rank 0 prints one JSON line.
"""
import argparse
import functools
import json
import math
import os
import resource
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from transformers import T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5Block

BF16 = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)


def build():
    torch.manual_seed(1)
    model = T5ForConditionalGeneration(T5Config(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8,
                                                vocab_size=32128, decoder_start_token_id=0, use_cache=False))
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={T5Block})
    return FullyShardedDataParallel(model.train(), auto_wrap_policy=policy, mixed_precision=BF16,
                                    sharding_strategy=ShardingStrategy.FULL_SHARD, device_id=torch.device("cpu"))


def rows(args, longest, mean, generator):
    """Padded ids and mask of a batch."""
    ids = torch.randint(2, 32128, (args.rows, longest), generator=generator)
    lengths = torch.full((args.rows,), longest)
    if args.varied:
        share = -torch.log1p(-torch.rand(args.rows, generator=generator)) * mean
        lengths = (share.clamp(max=1.0) * longest).round().long().clamp(min=1)
    mask = (torch.arange(longest) < lengths[:, None]).long()
    return ids * mask, mask


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--varied", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = build()
    optim = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(rank)
    times = []
    for _ in range(args.steps):
        ids, mask = rows(args, 512, 1.46, generator)
        labels, _ = rows(args, 150, 0.6, generator)
        dist.barrier()
        began = time.perf_counter()
        optim.zero_grad()
        loss = model(input_ids=ids, attention_mask=mask, labels=labels)["loss"]
        loss.backward()
        optim.step()
        times.append(time.perf_counter() - began)
    assert math.isfinite(loss.item())
    rss = torch.tensor(float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
    dist.all_reduce(rss, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps({"step_s": statistics.median(times[1:]), "peak_rss_bytes": int(rss.item()), "steps_s": times}))
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # all is measured; gloo's threads now and then end the process with an error when the group is destroyed


if __name__ == "__main__":
    main()
