"""The peer: the 1.5 B Llama of llama_1_5b.yaml trained with PyTorch FSDP2 on one device. One line of JSON.

As torchtitan trains it: RMSNorm, rotary positions, grouped-query attention through SDPA, SwiGLU; one unit a layer and
one for the rest, parameters in bf16, reduction in fp32, fused AdamW, gradient norm clipped; --compile compiles every
layer by itself, and the loss, which is made in --chunks, as torchtitan does it, so that all logits never exist at once. Only torch is needed.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def rotary_tables(length, size, theta):
    angles = torch.outer(torch.arange(length).float(), theta ** (-torch.arange(0, size, 2).float() / size))
    return torch.cat([angles, angles], -1)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Layer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.kv_heads, self.size = a.heads, a.kv_heads, a.hidden // a.heads
        self.norm1, self.norm2 = nn.RMSNorm(a.hidden, 1e-5), nn.RMSNorm(a.hidden, 1e-5)
        self.q = nn.Linear(a.hidden, a.hidden, bias=False)
        self.k = nn.Linear(a.hidden, a.kv_heads * self.size, bias=False)
        self.v = nn.Linear(a.hidden, a.kv_heads * self.size, bias=False)
        self.o = nn.Linear(a.hidden, a.hidden, bias=False)
        self.gate, self.up = nn.Linear(a.hidden, a.inner, bias=False), nn.Linear(a.hidden, a.inner, bias=False)
        self.down = nn.Linear(a.inner, a.hidden, bias=False)

    def forward(self, x, cos, sin):
        rows, length, _ = x.shape
        y = self.norm1(x)
        q = rotate(self.q(y).view(rows, length, self.heads, self.size).transpose(1, 2), cos, sin)
        k = rotate(self.k(y).view(rows, length, self.kv_heads, self.size).transpose(1, 2), cos, sin)
        v = self.v(y).view(rows, length, self.kv_heads, self.size).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        x = x + self.o(y.transpose(1, 2).reshape(rows, length, -1))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def part_of_loss(x, weight, targets, tokens):
    """The loss of some tokens as part of the mean over `tokens`, and its gradients."""
    logits = F.linear(x, weight).float()
    loss = F.cross_entropy(logits, targets, reduction="sum") / tokens
    slope = torch.softmax(logits, -1)
    slope.scatter_add_(-1, targets[:, None], slope.new_full((len(targets), 1), -1))
    slope = (slope / tokens).to(x.dtype)
    return loss, slope @ weight, slope.t() @ x


class ChunkedLoss(torch.autograd.Function):
    """Head and loss over `chunks` of the tokens, whose logits never exist at once; gradients are made with the loss."""

    @staticmethod
    def forward(ctx, x, weight, targets, chunks, part):
        loss, dx, dweight = 0, [], torch.zeros_like(weight, dtype=torch.float32)
        for rows, ids in zip(x.chunk(chunks), targets.chunk(chunks)):
            some, its_dx, its_dweight = part(rows, weight, ids, len(targets))
            loss = loss + some
            dx.append(its_dx)
            dweight += its_dweight
        ctx.save_for_backward(torch.cat(dx), dweight.to(weight.dtype))
        return loss

    @staticmethod
    def backward(ctx, slope):
        dx, dweight = ctx.saved_tensors
        return dx * slope.to(dx.dtype), dweight * slope.to(dweight.dtype), None, None, None


class Llama(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.embedding = nn.Embedding(a.vocab, a.hidden)
        self.layers = nn.ModuleList(Layer(a) for _ in range(a.layers))
        self.norm = nn.RMSNorm(a.hidden, 1e-5)
        self.head = nn.Linear(a.hidden, a.vocab, bias=False)
        self.chunks, self.part = a.chunks, torch.compile(part_of_loss) if a.compile else part_of_loss

    def forward(self, ids, targets, cos, sin):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return ChunkedLoss.apply(self.norm(x).flatten(0, 1), self.head.weight, targets.flatten(), self.chunks, self.part)


def build(a, device):
    torch.manual_seed(1)
    with torch.device(device):
        model = Llama(a)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    mesh = init_device_mesh(device.type, (1,))
    for layer in model.layers:
        if a.compile:
            layer.compile()
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def measure(a, optim, next_ids, loss_of):
    """The median of a.steps steps behind the first a.skip."""
    trained = optim.param_groups[0]["params"]
    times = []
    for _ in range(a.steps):
        ids = next_ids()
        began = time.perf_counter()
        loss = loss_of(ids)
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optim.step()
        optim.zero_grad(set_to_none=True)
        last = loss.item()
        times.append(time.perf_counter() - began)
    step = statistics.median(times[a.skip:])
    peak = torch.cuda.max_memory_reserved() if ids.is_cuda else 0
    return {"step_time_s": step, "tokens_per_s": a.rows * a.seq_len / step, "peak_device_bytes": peak, "loss": last}


def tell(measuring):
    try:
        found = measuring()
    except torch.cuda.OutOfMemoryError:
        found = {"out_of_memory": True}
    print(json.dumps(found))


def measured(a, device):
    model = build(a, device)
    optim = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    table = rotary_tables(a.seq_len, a.hidden // a.heads, 5e5)
    cos, sin = (f(table).to(device, torch.bfloat16) for f in (torch.cos, torch.sin))
    found = measure(a, optim, lambda: torch.randint(0, a.vocab, (a.rows, a.seq_len + 1)).to(device),
                    lambda ids: model(ids[:, :-1], ids[:, 1:], cos, sin))
    return {**found, "parameters": sum(p.numel() for p in model.parameters())}


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("vocab", 128256), ("hidden", 2048), ("inner", 8192), ("layers", 16), ("heads", 32), ("kv-heads", 8),
                          ("seq-len", 4096), ("rows", 8), ("steps", 16), ("skip", 5),
                          ("chunks", 16)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda")
    a = parser.parse_args()
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    dist.init_process_group("nccl" if a.device == "cuda" else "gloo", init_method=f"file:///tmp/fsdp2-{os.getpid()}", rank=0, world_size=1)
    tell(lambda: measured(a, torch.device(a.device)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
