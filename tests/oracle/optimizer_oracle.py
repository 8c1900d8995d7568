"""Twenty optimizer steps of `echelon train` against torch.optim.AdamW, SequentialLR and clip_grad_norm_."""
import safetensors.torch
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from transformers import LlamaConfig, LlamaForCausalLM

import dump
import trained

SEQ_LEN = 40
BATCH = 12
STEPS = 20
WARMUP = 5
LR = 3e-3
MIN_LR = 3e-4
LIMIT = 1e-5

# name: (overrides, schedule, largest gradient norm, ranks)
COSINE = ["schedule.kind=warmup_cosine", f"schedule.warmup_steps={WARMUP}", f"schedule.min_lr={MIN_LR}",
          "schedule.warmup_start_factor=0.2"]
CASES = {
    "cosine_clipped": (COSINE + ["train.clip_grad_norm=0.5"], "cosine", 0.5, 2),
    "constant_unclipped": (["model.tie_embeddings=true"], "constant", None, 1),
}


def schedule_of(kind, optimizer):
    if kind == "constant":
        return torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    warmup = LinearLR(optimizer, start_factor=0.2, end_factor=1.0, total_iters=WARMUP)
    cosine = CosineAnnealingLR(optimizer, T_max=STEPS - WARMUP, eta_min=MIN_LR)
    return SequentialLR(optimizer, [warmup, cosine], milestones=[WARMUP])


def reference(start, ids, kind, clip):
    """(model after all steps, [(loss, lr, gradient norm before clipping) of each step])."""
    model = LlamaForCausalLM(LlamaConfig.from_dict(start.config)).float()
    model.load_state_dict(start.tensors["weights"], strict=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    schedule = schedule_of(kind, optimizer)
    history = []
    for step in range(STEPS):
        batch = ids[step * BATCH:(step + 1) * BATCH]
        logits = model(input_ids=batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip or float("inf"))
        history.append((loss.item(), optimizer.param_groups[0]["lr"], norm.item()))
        optimizer.step()
        schedule.step()
    return model, history


def within(what, actual, expected, limit=LIMIT):
    error = abs(actual - expected) / abs(expected)
    assert error <= limit, f"{what}: {actual}, expected {expected} (relative error {error:.1e})"
    return error


def compare(args, folder, name):
    overrides, kind, clip, ranks = CASES[name]
    data = {"overrides": overrides, "first": 0, "rows": STEPS * BATCH}
    outputs = dump.dump(args, folder, 1, [{"name": f"start-{name}", "mode": "weights", "overrides": overrides},
                                          {"name": f"ids-{name}", "mode": "ids", **data}])
    start = dump.Dump(outputs[f"start-{name}"], 1, ("weights",))
    ids = dump.read_ids(outputs[f"ids-{name}"], SEQ_LEN + 1)
    model, history = reference(start, ids, kind, clip)
    if clip:
        assert sum(norm > clip for _, _, norm in history) >= STEPS / 2, "clipping hardly happens: lower its limit"
    metrics = trained.train(args, folder / name, [*overrides, f"train.steps={STEPS}"], ranks)
    assert len(metrics) == STEPS
    for line, (loss, lr, norm) in zip(metrics, history):
        within(f"{name} step {line['step']} loss", line["loss"], loss)
        within(f"{name} step {line['step']} lr", line["lr"], lr, 1e-12)
        within(f"{name} step {line['step']} gradient norm", line["grad_norm"], norm)
    output = trained.consolidate(args, folder / name, "safetensors", folder / f"{name}-out")
    weights = safetensors.torch.load_file(output / "model.safetensors")
    expected = dict(model.named_parameters())
    assert weights.keys() == expected.keys(), weights.keys() ^ expected.keys()
    errors = {key: dump.relative_error(weights[key], expected[key].detach()) for key in weights}
    worst = max(errors, key=errors.get)
    assert errors[worst] <= LIMIT, f"{name}: after {STEPS} steps {worst} differs by {errors[worst]:.1e}"
    moved = dump.relative_error(start.tensors["weights"][worst], expected[worst].detach())
    assert moved > 100 * LIMIT, "the weights hardly moved: nothing was compared"
    print(f"ok {name}: {STEPS} steps, weights within {errors[worst]:.1e}", flush=True)


if __name__ == "__main__":
    arguments = dump.arguments()
    with dump.Folder() as temporary:
        for case in CASES:
            compare(arguments, temporary, case)
