"""Every precision on several strategies and numbers of ranks: gradients against the fp32 ones of transformers. In bf16 and
fp16 they may be off by no more than transformers' own in that type are (and a little for the order of sums)."""
import torch

import dump
import matrix_oracle
import reference_models

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
UNSET = [f"precision.{key}=unset" for key in ("param", "reduce", "buffer", "output", "master")]
# name: (overrides, what transformers computes in, are the weights themselves rounded)
PRECISIONS = {
    "preset_fp32": (["precision.preset=fp32"], "fp32"),
    "preset_bf16": (["precision.preset=bf16"], "bf16"),
    "preset_bf16_fp32_reduce": (["precision.preset=bf16_fp32_reduce"], "bf16"),
    "preset_fp16": (["precision.preset=fp16"], "fp16"),
    "preset_grad_bf16": (["precision.preset=grad_bf16"], "bf16"),
    "preset_bf16_pure": (["precision.preset=bf16_pure", "optim.kind=anyprecision_adamw"], "bf16"),
    "param_only": (["precision.param=bf16"], "bf16"),
    "fp16_param_fp32_reduce": (["precision.param=fp16", "precision.reduce=fp32"], "fp16"),
    "output_bf16": (["precision.output=bf16"], "bf16"),
    "buffer_bf16": (["precision.buffer=bf16"], "bf16"),
    "norms_and_head_fp32": (["precision.param=bf16", 'precision.overrides={"*norm": fp32, "lm_head": fp32}'], "bf16"),
    "tied_head_fp32": (["precision.param=bf16", "model.tie_embeddings=true", "precision.overrides={lm_head: fp32}"], "bf16"),
    "one_block_fp16": (['precision.overrides={"model.layers.1": fp16}'], "fp16"),
}
PLACES = [  # (ranks, overrides)
    (1, []),
    (2, ["shard.strategy=shard_grad_op", "activation_checkpointing.policy=full"]),
    (2, ["shard.strategy=no_shard", "train.reduce_gradients=last_micro_batch"]),
    (3, ["shard.strategy=full_shard", "shard.wrap.policy=size_based", "shard.wrap.min_params=4000"]),
    (3, ["shard.strategy=shard_optimizer", "activation_checkpointing.policy=selective"]),
    (4, ["shard.strategy=hybrid_shard", "shard.mesh.shard=2", "shard.offload=cpu"]),
]
SLACK = 1.3
KNOWN = dump.Once()


def gradients(result, ids, dtype):
    model = reference_models.model_of(result).to(dtype)
    loss = reference_models.mean_loss(model, ids)
    scale = 1024.0 if dtype == torch.float16 else 1.0
    (loss * scale).backward()
    return loss.item(), {name: p.grad.float() / scale for name, p in model.named_parameters()}


def check(name, ranks, place, output):
    result = dump.Dump(output, ranks, ("weights", "gradients"))
    ids = dump.read_ids(output, 25)
    tensors = {**result.tensors["weights"], "ids": ids}
    exact_loss, exact = KNOWN.of((ranks, "fp32"), tensors, lambda: gradients(result, ids, torch.float32))
    kind = PRECISIONS[name][1]
    loss, theirs = KNOWN.of((ranks, kind), tensors, lambda: gradients(result, ids, TYPES[kind]))
    allowed = 1e-5 if kind == "fp32" else SLACK * dump.distance(theirs, exact)
    allowed_loss = max(1e-6, 3 * abs(loss - exact_loss) / exact_loss, 0 if allowed == 1e-5 else 2e-4)
    off, off_loss = dump.distance(result.tensors["gradients"], exact), abs(result.loss - exact_loss) / exact_loss
    if off <= allowed and off_loss <= allowed_loss:  # false for NaN too
        return True
    print(f"FAIL {name} on {ranks} ranks, {place}: gradients off by {off:.1e} (allowed {allowed:.1e}), loss by "
          f"{off_loss:.1e} (allowed {allowed_loss:.1e})", flush=True)
    return False


def main():
    args = dump.arguments()
    ok = True
    with dump.Folder() as folder:
        for ranks in (1, 2, 3, 4):
            cases = {f"{name}-{i}": (name, place) for name in PRECISIONS
                     for i, (on, place) in enumerate(PLACES) if on == ranks}
            requests = [{"name": key, "mode": "gradients", "perturb": 0.05,
                         "overrides": matrix_oracle.SIZES + UNSET + place + PRECISIONS[name][0]
                         + [f"train.global_batch_size={3 * ranks}"]} for key, (name, place) in cases.items()]
            outputs = dump.dump(args, folder, ranks, requests)
            good = [check(name, ranks, place, outputs[key]) for key, (name, place) in cases.items()]
            print(f"{ranks} ranks: {sum(good)} of {len(good)} agree", flush=True)
            ok = ok and all(good)
        if not ok:
            raise SystemExit("a precision is worse than it must be")


if __name__ == "__main__":
    main()
