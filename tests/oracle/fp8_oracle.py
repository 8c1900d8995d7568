"""precision.matmul: fp8 against transformers, whose linear layers round their operands as torchao's tensorwise recipe does:
gradients of models with fused projections, on one and two ranks. Sharding, recomputation and accumulation change no bit."""
import torch

import dump
import reference_models

SIZES = ["model.vocab_size=83", "model.hidden_size=64", "model.heads=4", "model.intermediate_size=96", "model.layers=3",
         "model.init_std=0.05", "data.seq_len=24", "train.micro_batch_size=1", "train.global_batch_size=4",
         "precision.param=bf16", "precision.reduce=fp32", "precision.buffer=fp32", "precision.output=fp32"]
KINDS = {"phi3": ["model.kind=phi3"], "gpt2": ["model.kind=gpt2", "model.kv_heads=3"]}
FP8 = ["precision.matmul=fp8"]
PLACES = {  # of phi3 on two ranks, with one pass each: sums over passes round in an order that depends on the strategy
    "full_shard": [],
    "no_shard": ["shard.strategy=no_shard"],
    "zero2": ["shard.strategy=shard_grad_op"],
    "small_units": ["shard.wrap.policy=size_based", "shard.wrap.min_params=30"],
    "full": ["activation_checkpointing.policy=full"],
    "selective": ["activation_checkpointing.policy=selective"],
    "offload": ["shard.offload=cpu", "activation_checkpointing.policy=full"],
}
# The units before a product round to bf16 in other places than transformers, so operands near the middle of two values of fp8
# become the other one. unit_model compares single products exactly; here errors must be of one size, and alike: independent
# ones of this size would be sqrt(2) of it apart.
SAME_SIZE = 0.1
ALIKE = 1.0
LIMIT = 0.15  # the stated bound of gradients in fp8, relative, over all parameters


def rounded(tensor, kind):
    """What torchao's hp_tensor_to_float8 makes, in fp32."""
    largest = torch.finfo(kind).max
    scale = (largest / tensor.abs().max().double().clamp(min=1e-12)).float()
    return (tensor.float() * scale).clamp(-largest, largest).to(kind).float() / scale


class Fp8Product(torch.autograd.Function):
    """x w^T."""

    @staticmethod
    def forward(ctx, x, w):
        x8, w8 = rounded(x, torch.float8_e4m3fn), rounded(w, torch.float8_e4m3fn)
        ctx.save_for_backward(x8, w8)
        return (x8 @ w8.t()).to(x.dtype)

    @staticmethod
    def backward(ctx, dy):
        x8, w8 = ctx.saved_tensors
        dy8 = rounded(dy, torch.float8_e5m2)
        flat = dy8.flatten(0, -2)
        return (dy8 @ w8).to(dy.dtype), (flat.t() @ x8.flatten(0, -2)).to(dy.dtype)


def use_fp8(model):
    for name, module in model.named_modules():
        if name.endswith(("_proj", "c_attn", "c_fc")):
            conv = type(module).__name__ == "Conv1D"
            module.forward = lambda x, m=module, conv=conv: (
                Fp8Product.apply(x, m.weight.t() if conv else m.weight) + (0 if m.bias is None else m.bias))


def gradients(result, ids, dtype, fp8):
    """Each sequence is a micro-batch with scales of its own."""
    model = reference_models.model_of(result).to(dtype)
    if fp8:
        use_fp8(model)
    sums = {}
    loss = 0.0
    for row in ids:
        model.zero_grad()
        part = reference_models.mean_loss(model, row[None]) / len(ids)
        part.backward()
        loss += part.item()
        for name, gradient in reference_models.gradients_of(model, result).items():
            sums[name] = sums.get(name, 0) + gradient.float()
    return loss, sums


def check(name, ranks, output):
    result = dump.Dump(output, ranks, ("weights", "gradients"))
    ids = dump.read_ids(output, 25)
    assert len(ids) == 4, ids.shape
    exact_loss, exact = gradients(result, ids, torch.float32, False)
    _, bf16 = gradients(result, ids, torch.bfloat16, False)
    loss, theirs = gradients(result, ids, torch.bfloat16, True)
    ours = result.tensors["gradients"]
    own, off, apart = dump.distance(ours, exact), dump.distance(theirs, exact), dump.distance(ours, theirs)
    print(f"{name} on {ranks}: gradients off fp32's by {own:.4f} (transformers {off:.4f}, bf16 "
          f"{dump.distance(bf16, exact):.4f}), apart {apart:.4f}; loss {result.loss:.5f} ({loss:.5f}, fp32 {exact_loss:.5f})", flush=True)
    assert abs(own / off - 1) <= SAME_SIZE and apart <= ALIKE * off, "other roundings than torchao's"
    assert own <= LIMIT
    assert abs(result.loss - loss) <= 2e-3 * loss, (result.loss, loss)


def main():
    args = dump.arguments()
    with dump.Folder() as folder:
        for ranks in (1, 2):
            requests = {kind: SIZES + keys + FP8 for kind, keys in KINDS.items()}
            if ranks == 2:
                requests.update({place: requests["phi3"] + ["train.global_batch_size=2"] + keys for place, keys in PLACES.items()})
            outputs = dump.dump(args, folder, ranks, [
                {"name": name, "mode": "gradients", "perturb": 0.05, "training": True, "overrides": overrides}
                for name, overrides in requests.items()])
            for kind in KINDS:
                check(kind, ranks, outputs[kind])
        first, *others = (dump.Dump(outputs[place], 2, ("gradients",)).tensors["gradients"] for place in PLACES)
        for place, other in zip(list(PLACES)[1:], others):
            for key, gradient in first.items():
                assert torch.equal(gradient, other[key]), (place, key)
        print("equal in every bit however sharded and recomputed", flush=True)


if __name__ == "__main__":
    main()
