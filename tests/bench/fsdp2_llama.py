"""The peer: the 179 M Llama of recipes/llama_179m_synthetic.yaml trained with PyTorch FSDP2 on CPU ranks (gloo).

Started once a rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set (what torchrun does). The set-up is that of
the FSDP2 article: transformers' Llama with SDPA, one unit a decoder layer and one for the rest, parameters in bf16,
reduction in fp32, fused AdamW, gradient norm clipped. Rank 0 prints one JSON line.

--checkpoint: each decoder layer keeps only its input and computes again in backward (activation checkpointing as
PyTorch's own FSDP2 trainers apply it). --keep-gathered: weights stay gathered between forward and backward.
"""
import argparse
import json
import os
import resource
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import LlamaConfig, LlamaForCausalLM


def build(mesh, checkpoint, keep_gathered):
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=50000, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12,
        num_key_value_heads=3, max_position_embeddings=2048, rms_norm_eps=1e-5, rope_theta=10000.0,
        tie_word_embeddings=False, attn_implementation="sdpa", use_cache=False)
    model = LlamaForCausalLM(config)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    layers = model.model.layers
    for index in range(len(layers)):
        if checkpoint:
            layers[index] = checkpoint_wrapper(layers[index], preserve_rng_state=False)
        fully_shard(layers[index], mesh=mesh, mp_policy=policy, reshard_after_forward=not keep_gathered)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--seq-len", type=int, default=512)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--keep-gathered", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    model = build(init_device_mesh("cpu", (size,)), args.checkpoint, args.keep_gathered)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1, fused=True)
    generator = torch.Generator().manual_seed(rank)
    times = []
    for _ in range(args.steps):
        ids = torch.randint(0, 50000, (args.rows, args.seq_len + 1), generator=generator)
        dist.barrier()
        began = time.perf_counter()
        logits = model(input_ids=ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        optim.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - began)
    rss = torch.tensor(float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
    dist.all_reduce(rss, op=dist.ReduceOp.MAX)
    if rank == 0:
        step = statistics.median(times[1:])
        print(json.dumps({"step_s": step, "tokens_per_s": size * args.rows * args.seq_len / step,
                          "peak_rss_bytes": int(rss.item()), "first_loss": loss.item(), "steps_s": times}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
