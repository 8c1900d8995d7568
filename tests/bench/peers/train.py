"""The peer of every training benchmark: PyTorch FSDP2, FSDP1, DDP or DeepSpeed ZeRO on CPU ranks (gloo).

Started once a rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set (what torchrun does). Models:
  llama   transformers' Llama of recipes/llama_179m_synthetic.yaml, SDPA; fused AdamW, gradient norm clipped
  small   the same with 19 M parameters
  gpt2    transformers' GPT-2 of 124 M parameters, SDPA, dropout 0.1 but for attention, as Echelon has it; otherwise as llama
  t5      transformers' T5 small, batches padded to the full length with an attention mask, AdamW, as the tutorial on FSDP
          trains it; --varied: lengths as WikiHow's, which changes nothing but the mask
  cnn     the network of the MNIST tutorials, Adadelta
One unit a block. fsdp2: parameters in bf16, reduction in fp32; fsdp1: parameters, reduction and buffers in bf16, as the
tutorial has it; the network of MNIST stays fp32. Rank 0 says "step N/" after each step, and then one JSON line.
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
from torch.distributed.device_mesh import init_device_mesh

LLAMA = dict(vocab_size=50000, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12,
             num_key_value_heads=3, max_position_embeddings=2048, rms_norm_eps=1e-5, rope_theta=10000.0,
             tie_word_embeddings=False)
SMALL = {**LLAMA, "vocab_size": 8000, "hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6,
         "num_attention_heads": 6}


class Text:
    """Next tokens of random ids."""
    clip = 1.0

    def __init__(self, args, model, blocks):
        self.args, self.model, self.blocks = args, model, blocks
        self.vocabulary = model.config.vocab_size

    def batch(self, generator):
        return torch.randint(0, self.vocabulary, (self.args.rows, 512 + 1), generator=generator)

    def loss(self, model, ids):
        logits = model(input_ids=ids[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())

    def optimizer(self, model):
        return torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1, fused=True)


class Pairs:
    clip = 0.0

    def __init__(self, args, model, blocks):
        self.args, self.model, self.blocks = args, model, blocks

    def rows(self, longest, mean, generator):
        """Padded ids and mask of a batch."""
        ids = torch.randint(2, 32128, (self.args.rows, longest), generator=generator)
        lengths = torch.full((self.args.rows,), longest)
        if self.args.varied:
            share = -torch.log1p(-torch.rand(self.args.rows, generator=generator)) * mean
            lengths = (share.clamp(max=1.0) * longest).round().long().clamp(min=1)
        mask = (torch.arange(longest) < lengths[:, None]).long()
        return ids * mask, mask

    def batch(self, generator):
        return *self.rows(512, 1.46, generator), self.rows(150, 0.6, generator)[0]

    def loss(self, model, batch):
        ids, mask, labels = batch
        return model(input_ids=ids, attention_mask=mask, labels=labels)["loss"]

    def optimizer(self, model):
        return torch.optim.AdamW(model.parameters(), lr=2e-3)


class Images:
    clip = 0.0

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = torch.nn.Conv2d(1, 32, 3, 1), torch.nn.Conv2d(32, 64, 3, 1)
            self.fc1, self.fc2 = torch.nn.Linear(9216, 128), torch.nn.Linear(128, 10)
            self.dropout1, self.dropout2 = torch.nn.Dropout(0.25), torch.nn.Dropout(0.5)

        def forward(self, x):
            x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
            x = torch.flatten(self.dropout1(torch.max_pool2d(x, 2)), 1)
            return torch.log_softmax(self.fc2(self.dropout2(torch.relu(self.fc1(x)))), dim=1)

    def __init__(self, args):
        self.args, self.model, self.blocks = args, Images.Net(), []

    def batch(self, generator):
        images = torch.rand(self.args.rows, 1, 28, 28, generator=generator)
        return images, torch.randint(0, 10, (self.args.rows,), generator=generator)

    def loss(self, model, batch):
        return torch.nn.functional.nll_loss(model(batch[0]), batch[1])

    def optimizer(self, model):
        return torch.optim.Adadelta(model.parameters(), lr=1.0)


def task(args):
    torch.manual_seed(1)
    if args.model == "cnn":
        return Images(args)
    import transformers
    if args.model == "t5":
        model = transformers.T5ForConditionalGeneration(transformers.T5Config(
            d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, vocab_size=32128, decoder_start_token_id=0,
            use_cache=False))
        return Pairs(args, model.train(), [model.encoder.block, model.decoder.block])
    if args.model == "gpt2":
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(attn_pdrop=0.0, attn_implementation="sdpa", use_cache=False))
        return Text(args, model.train(), [model.transformer.h])
    sizes = SMALL if args.model == "small" else LLAMA
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, attn_implementation="sdpa", use_cache=False))
    return Text(args, model.train(), [model.model.layers])


def each_block(work, change):
    for blocks in work.blocks:
        for index in range(len(blocks)):
            blocks[index] = change(blocks[index])


def prepare_blocks(args, work):
    """What stays the same however the model is sharded."""
    if args.checkpoint:
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        each_block(work, lambda block: checkpoint_wrapper(block, preserve_rng_state=False))
    if args.compile:
        each_block(work, lambda block: block.compile() or block)


def with_fsdp2(args, work):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    low = args.model != "cnn"
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if low else MixedPrecisionPolicy()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    shard = functools.partial(fully_shard, mesh=mesh, mp_policy=policy)
    each_block(work, lambda block: shard(block, reshard_after_forward=not args.keep_gathered))
    return shard(work.model)


def with_fsdp1(args, work):
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy, size_based_auto_wrap_policy
    kinds = {type(block) for blocks in work.blocks for block in blocks}
    policy = ModuleWrapPolicy(kinds) if kinds else functools.partial(size_based_auto_wrap_policy, min_num_params=20000)
    low = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)
    return FullyShardedDataParallel(work.model, auto_wrap_policy=policy, mixed_precision=low if kinds else None,
                                    sharding_strategy=ShardingStrategy.FULL_SHARD, device_id=torch.device("cpu"))


class Plain:
    """A step as PyTorch's trainers write it."""

    def __init__(self, args, work, model):
        self.work, self.model, self.optim = work, model, work.optimizer(model)

    def step(self, batch):
        loss = self.work.loss(self.model, batch)
        loss.backward()
        if self.work.clip:
            # FSDP1's gradients are slices, whose norm only it can sum over the ranks.
            clip = getattr(self.model, "clip_grad_norm_", functools.partial(torch.nn.utils.clip_grad_norm_, self.model.parameters()))
            clip(self.work.clip)
        self.optim.step()
        self.optim.zero_grad(set_to_none=True)
        return loss


class DeepSpeed:
    """ZeRO 3: its engine does backward, clipping and the optimizer's step."""

    def __init__(self, args, work):
        import deepspeed
        config = {"train_micro_batch_size_per_gpu": args.rows, "gradient_clipping": work.clip, "bf16": {"enabled": True},
                  "zero_optimization": {"stage": 3}, "zero_allow_untested_optimizer": True,
                  "zero_force_ds_cpu_optimizer": False, "communication_data_type": "fp32"}
        self.work = work
        self.engine = deepspeed.initialize(model=work.model, optimizer=work.optimizer(work.model), config=config)[0]

    def step(self, batch):
        loss = self.work.loss(self.engine, batch)
        self.engine.backward(loss)
        self.engine.step()
        return loss


def trainer(args, work):
    prepare_blocks(args, work)
    if args.engine == "deepspeed":
        return DeepSpeed(args, work)
    if args.engine == "ddp":
        return Plain(args, work, torch.nn.parallel.DistributedDataParallel(work.model))
    return Plain(args, work, {"fsdp1": with_fsdp1, "fsdp2": with_fsdp2}[args.engine](args, work))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("fsdp2", "fsdp1", "ddp", "deepspeed"), required=True)
    parser.add_argument("--model", choices=("llama", "small", "gpt2", "t5", "cnn"), required=True)
    parser.add_argument("--steps", type=int, default=5, help="that count")
    parser.add_argument("--warm-up", type=int, default=1, help="steps before these")
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--checkpoint", action="store_true", help="each block keeps only its input and computes again")
    parser.add_argument("--keep-gathered", action="store_true", help="weights stay gathered from forward to backward")
    parser.add_argument("--compile", action="store_true", help="torch.compile of each block")
    parser.add_argument("--varied", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.engine == "deepspeed":
        import deepspeed
        deepspeed.init_distributed("gloo", verbose=False)
    else:
        dist.init_process_group("gloo")
    rank = dist.get_rank()
    work = task(args)
    training = trainer(args, work)
    generator = torch.Generator().manual_seed(rank)
    times = []
    for number in range(1, args.warm_up + args.steps + 1):
        batch = work.batch(generator)
        dist.barrier()
        began = time.perf_counter()
        loss = training.step(batch)
        times.append(time.perf_counter() - began)
        if rank == 0:
            print(f"step {number}/{args.warm_up + args.steps}", flush=True)
    assert math.isfinite(loss.item())
    rss = torch.tensor(float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
    dist.all_reduce(rss, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps({"step_s": statistics.median(times[args.warm_up:]), "peak_rss_bytes": int(rss.item()), "loss": loss.item(),
                          "steps_s": times}))
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # all is measured; gloo's threads now and then end the process with an error when the group is destroyed


if __name__ == "__main__":
    main()
