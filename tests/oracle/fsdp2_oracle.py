"""Ten steps of `echelon train` on 2 ranks beside PyTorch FSDP2 on 2 torchrun ranks, from the same weights on the same
ids: the same loss curve. fp32: within 1e-6. bf16: as close to FSDP2 and to the fp32 curve as FSDP2 is to the fp32 curve,
give or take what FSDP2 and plain data parallelism in PyTorch differ by."""
import json
import pathlib
import subprocess
import sys

import numpy

import dump
import trained

STEPS, BATCH, SEQ_LEN = 10, 12, 40
COMMON = [f"train.steps={STEPS}", "train.micro_batch_size=6", f"train.global_batch_size={BATCH}",
          "train.clip_grad_norm=1.0", "checkpoint.every_steps=0", "model.init_std=0.05"]
CASES = {
    "fp32": ["precision.param=fp32"],
    "bf16": ["precision.preset=bf16_fp32_reduce", "precision.param=bf16", "precision.buffer=bf16"],
}
STRATEGIES = ("full_shard", "shard_grad_op", "shard_optimizer", "no_shard")


def start(args, folder, name):
    """Initial weights and all ids, as the peer reads them."""
    overrides = COMMON + CASES[name]
    weights = dump.dump(args, folder, 1, [{"name": f"{name}-weights", "mode": "weights", "overrides": overrides}])
    result = dump.Dump(weights[f"{name}-weights"], 1, ("weights",))
    numpy.savez(folder / f"{name}.npz", **{k: v.numpy() for k, v in result.tensors["weights"].items()})
    ids = dump.dump(args, folder, 1, [{"name": f"{name}-ids", "mode": "ids", "overrides": overrides, "first": 0,
                                       "rows": STEPS * BATCH}])
    return {"config": result.config, "weights": str(folder / f"{name}.npz"),
            "ids": str(ids[f"{name}-ids"]), "seq_len": SEQ_LEN, "global_batch_size": BATCH,
            "steps": STEPS, "lr": 3e-3, "betas": [0.9, 0.95], "weight_decay": 0.1, "clip": 1.0, "param": name}


def peers(folder, jobs):
    (folder / "jobs.json").write_text(json.dumps(jobs))
    subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0",
                    "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0",
                    str(pathlib.Path(__file__).with_name("fsdp2_peer.py")), str(folder / "jobs.json"),
                    str(folder / "losses.json")], check=True, timeout=240)
    return json.loads((folder / "losses.json").read_text())


def furthest(a, b):
    return max(abs(x - y) / y for x, y in zip(a, b))


def main():
    args = dump.arguments()
    ok = True
    with dump.Folder() as folder:
        curves = peers(folder, [start(args, folder, name) for name in CASES])
        exact = curves[list(CASES).index("fp32")]["fsdp2"]
        for name, curve in zip(CASES, curves):
            spread = furthest(curve["data_parallel"], curve["fsdp2"])
            rounding = furthest(curve["fsdp2"], exact)
            for strategy in STRATEGIES:
                metrics = trained.train(args, folder / f"{name}-{strategy}",
                                        COMMON + CASES[name] + [f"shard.strategy={strategy}"], 2)
                losses = [line["loss"] for line in metrics]
                off, error = furthest(losses, curve["fsdp2"]), furthest(losses, exact)
                good = off <= max(1e-6, rounding + spread) and error <= max(1e-6, rounding + spread)
                print(f"{'ok  ' if good else 'FAIL'} {name} {strategy}: ten losses within {off:.1e} of FSDP2's and "
                      f"{error:.1e} of the fp32 curve; FSDP2 {rounding:.1e} of it, {spread:.1e} of data parallelism",
                      flush=True)
                ok = ok and good
    if not ok:
        raise SystemExit("the loss curve is not FSDP2's")


if __name__ == "__main__":
    sys.exit(main())
