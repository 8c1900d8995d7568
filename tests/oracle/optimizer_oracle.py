"""Twenty steps of `echelon train` with each optimizer and schedule against torch.optim, torch.optim.lr_scheduler and
clip_grad_norm_: losses, learning rates, gradient norms, weights, the optimizer's states, averaged weights. In the
middle the run changes its number of ranks."""
import fnmatch
import pathlib
import shutil

import safetensors.torch
import torch
from torch.optim.lr_scheduler import (ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR, StepLR)
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM

import dump
import reference_models
import trained
from anyprecision_adamw import AnyPrecisionAdamW
from muon_adamw import MuonAdamW

SEQ_LEN = 40
BATCH = 12
STEPS = 20
LIMIT = 1e-5
# Where a state is bf16, a difference in a gradient's last bit now and then rounds it to another neighbor.
LIMIT_BF16 = 1e-4
# Muon's iterations are in bf16: where a gradient's last bit rounds an element to another neighbor, an update differs.
LIMIT_MUON = 5e-4
# Of a weight, after a step with equal gradients.
LIMIT_MUON_STEP = 1e-6
# Of a matrix's update, by norm, where instructions for bf16 add two products at a time: a sum's last bit then rounds an
# element to another neighbor, and later iterations spread it.
LIMIT_MUON_UPDATE = 2e-2
ADDS_PAIRS = "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()
# Gradients of attention magnify what the weights differ by, and the first moment is made of them.
STATE_LIMITS = {LIMIT: 5e-5, LIMIT_BF16: 1e-2, LIMIT_MUON: 1e-2}
BETAS = (0.9, 0.95)
EPS = 1e-8
DECAY = 0.1
MIN_LR = 3e-4
VOCABULARY = 199  # of tiny.yaml
ADJUST = {"match_adamw": "match_rms_adamw", "spectral": "original"}  # scales of Muon as torch.optim names them

# Parameters of several learning rates, some without weight decay.
NO_DECAY = ["*norm*", "model.embed_tokens.*"]
THREE_RATES = {"model.layers.0.*": 0.5, "*.self_attn.?_proj.weight": 2.0}
# Whole units are frozen, single parameters, and parts of what is one product.
FROZEN_START = {"model.embed_tokens.*": 0, "model.layers.0.*": 0, "*.q_proj.weight": 0, "*.post_attention_layernorm.*": 0,
                "model.layers.1.mlp.*": 0.5}
ONLY_HEAD = {"*": 0, "lm_head.*": 1}


def groups(lr_factors):
    if not lr_factors:
        return []
    factors = ", ".join(f'"{pattern}": {factor}' for pattern, factor in lr_factors.items())
    return ['optim.no_decay=["' + '", "'.join(NO_DECAY) + '"]', "optim.lr_factors={" + factors + "}"]


def low_precision(first, second, compensation):
    names = {"fp32": torch.float32, "bf16": torch.bfloat16}
    kahan = compensation is not None
    overrides = ["optim.kind=anyprecision_adamw", f"optim.momentum_dtype={first}", f"optim.variance_dtype={second}",
                 f"optim.kahan={str(kahan).lower()}"]
    if kahan:
        overrides.append(f"optim.compensation_dtype={compensation}")
    dtypes = [names[name] for name in (first, second, compensation or "fp32")]
    return overrides, lambda groups, lr: AnyPrecisionAdamW(groups, lr, BETAS, EPS, DECAY, dtypes, kahan)


def is_matrix(parameter):
    """What Muon updates; embedding and head have as many rows as the vocabulary has tokens."""
    return parameter.ndim == 2 and parameter.shape[0] != VOCABULARY


def muon(momentum, nesterov, steps, scale):
    overrides = ["optim.kind=muon", f"optim.muon.momentum={momentum}", f"optim.muon.nesterov={str(nesterov).lower()}",
                 f"optim.muon.ns_steps={steps}", f"optim.muon.scale={scale}"]
    options = {"momentum": momentum, "nesterov": nesterov, "ns_steps": steps,
               "adjust_lr_fn": ADJUST[scale]}
    return overrides, lambda groups, lr: MuonAdamW(groups, lr, is_matrix, {"betas": BETAS, "eps": EPS}, options)


# name: (overrides, optimizer of (groups, lr))
OPTIMIZERS = {
    "adamw": ([], lambda groups, lr: torch.optim.AdamW(groups, lr=lr, betas=BETAS, eps=EPS, weight_decay=DECAY)),
    "anyprecision_fp32": low_precision("fp32", "fp32", "fp32"),
    "anyprecision_bf16": low_precision("bf16", "bf16", "bf16"),
    "anyprecision_mixed": low_precision("bf16", "fp32", None),
    "sgd": (["optim.kind=sgd"], lambda groups, lr: torch.optim.SGD(groups, lr=lr, weight_decay=DECAY)),
    "sgd_momentum": (["optim.kind=sgd", "optim.momentum=0.9"],
                     lambda groups, lr: torch.optim.SGD(groups, lr=lr, weight_decay=DECAY, momentum=0.9)),
    "sgd_nesterov": (["optim.kind=sgd", "optim.momentum=0.8", "optim.nesterov=true"],
                     lambda groups, lr: torch.optim.SGD(groups, lr=lr, weight_decay=DECAY, momentum=0.8,
                                                        nesterov=True)),
    "adadelta": (["optim.kind=adadelta", "optim.rho=0.8", "optim.eps=1e-6"],
                 lambda groups, lr: torch.optim.Adadelta(groups, lr=lr, rho=0.8, eps=1e-6, weight_decay=DECAY)),
    "muon": muon(0.95, True, 5, "match_adamw"),
    "muon_spectral": muon(0.8, False, 4, "spectral"),
}

# name: (overrides, scheduler of (optimizer, peak lr))
WARMUP = ["schedule.warmup_steps=5", "schedule.warmup_start_factor=0.2"]
FLOOR = [f"schedule.min_lr={MIN_LR}"]
SCHEDULES = {
    "constant": ([], lambda o, lr: ConstantLR(o, factor=1.0)),
    "linear_warmup": (WARMUP, lambda o, lr: LinearLR(o, 0.2, 1.0, total_iters=5)),
    "step": (["schedule.step_size=6", "schedule.gamma=0.5"], lambda o, lr: StepLR(o, step_size=6, gamma=0.5)),
    "cosine": (FLOOR, lambda o, lr: CosineAnnealingLR(o, T_max=STEPS, eta_min=MIN_LR)),
    "warmup_cosine": (WARMUP + FLOOR, lambda o, lr: SequentialLR(
        o, [LinearLR(o, 0.2, 1.0, total_iters=5), CosineAnnealingLR(o, T_max=STEPS - 5, eta_min=MIN_LR)], [5])),
    "warmup_stable_decay": (WARMUP + FLOOR + ["schedule.decay_steps=8"], lambda o, lr: SequentialLR(
        o, [LinearLR(o, 0.2, 1.0, total_iters=5), ConstantLR(o, factor=1.0),
            LinearLR(o, 1.0, MIN_LR / lr, total_iters=8)], [5, 12])),
    "sequence": (["schedule.warmup_start_factor=0.2"] + FLOOR +
                 ['schedule.sequence=["linear_warmup 4", "constant 6", "cosine"]'], lambda o, lr: SequentialLR(
                     o, [LinearLR(o, 0.2, 1.0, total_iters=4), ConstantLR(o, factor=1.0),
                         CosineAnnealingLR(o, T_max=10, eta_min=MIN_LR)], [4, 10])),
}

# name: (optimizer, schedule, peak lr, lr_factors, largest gradient norm, decay of averaged weights, ranks, overrides)
CASES = {
    "cosine_clipped": ("adamw", "warmup_cosine", 3e-3, {}, 0.5, None, 2, []),
    "constant_unclipped": ("adamw", "constant", 3e-3, {}, None, None, 1, ["model.tie_embeddings=true"]),
    "adamw_groups": ("adamw", "step", 3e-3, THREE_RATES, 0.5, 0.9, 3, []),
    "anyprecision_fp32": ("anyprecision_fp32", "sequence", 3e-3, THREE_RATES, 0.5, None, 2, []),
    "anyprecision_bf16": ("anyprecision_bf16", "warmup_cosine", 1e-3, {}, None, 0.8, 2, []),
    "anyprecision_mixed": ("anyprecision_mixed", "constant", 1e-3, THREE_RATES, None, None, 1, []),
    "sgd": ("sgd", "cosine", 0.05, {}, 0.5, None, 1, []),
    "sgd_momentum": ("sgd_momentum", "linear_warmup", 0.02, {}, None, 0.9, 2, []),
    "sgd_nesterov": ("sgd_nesterov", "warmup_stable_decay", 0.02, THREE_RATES, 0.5, None, 3, []),
    "adadelta": ("adadelta", "linear_warmup", 1.0, THREE_RATES, 0.5, None, 2, ["model.tie_embeddings=true"]),
    "muon": ("muon", "warmup_cosine", 1e-3, THREE_RATES, 0.5, 0.9, 3, []),
    "muon_spectral": ("muon_spectral", "constant", 3e-3, {}, None, None, 2, ["model.tie_embeddings=true"]),
    "frozen_start": ("adamw", "warmup_cosine", 3e-3, FROZEN_START, 0.3, 0.9, 4, ["train.micro_batch_size=1"]),
    "frozen_tied": ("anyprecision_bf16", "constant", 1e-3, {"model.embed_tokens.*": 0, "*norm*": 0}, None, 0.8, 2,
                    ["model.tie_embeddings=true", "shard.strategy=shard_optimizer"]),
    "only_head": ("sgd_momentum", "cosine", 0.02, ONLY_HEAD, 0.1, None, 2, ["activation_checkpointing.policy=full"]),
}


def numbers_of(name, lr_factors):
    """(factor on the learning rate, factor on weight decay) of a parameter."""
    if not lr_factors:
        return 1.0, 1.0
    factor = 1.0
    for pattern, value in lr_factors.items():
        if fnmatch.fnmatchcase(name, pattern):
            factor = value  # the last one counts
    return factor, 0.0 if any(fnmatch.fnmatchcase(name, pattern) for pattern in NO_DECAY) else 1.0


def groups_of(model, lr_factors):
    """torch.optim's parameter groups, each with its factor on the learning rate. Freezes what has factor 0."""
    found = {}
    for name, parameter in model.named_parameters():
        factor, decays = numbers_of(name, lr_factors)
        parameter.requires_grad_(factor > 0)
        if factor > 0:
            found.setdefault((factor, decays), []).append(parameter)
    assert lr_factors is not THREE_RATES or len(found) == 5, found.keys()
    return [{"params": parameters, "weight_decay": DECAY * decays, "factor": factor}
            for (factor, decays), parameters in found.items()]


class Reference:
    """The model after all steps, its optimizer, averaged weights and [(loss, lr, gradient norm)] of each step."""

    def __init__(self, start, ids, case):
        optimizer, schedule, peak, lr_factors, clip, average, _, _ = case
        self.model = LlamaForCausalLM(LlamaConfig.from_dict(start.config)).float()
        self.model.load_state_dict(start.tensors["weights"], strict=False)
        self.optimizer = OPTIMIZERS[optimizer][1](groups_of(self.model, lr_factors), peak)
        self.average = {name: value.detach().clone() for name, value in self.model.named_parameters() if value.requires_grad}
        # Factors apply to the scheduled rate, so the scheduler drives an optimizer of its own.
        rate = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=peak)
        scheduler = SCHEDULES[schedule][1](rate, peak)
        self.history = []
        for step in range(STEPS):
            lr = rate.param_groups[0]["lr"]
            for group in self.optimizer.param_groups:
                group["lr"] = lr * group["factor"]
            self.history.append(self._step(ids[step * BATCH:(step + 1) * BATCH], lr, clip))
            for name, value in self.average.items():
                trained = self.model.get_parameter(name).detach()
                value.mul_(average or 0).add_(trained, alpha=1 - (average or 0))
            rate.step()
            scheduler.step()

    def _step(self, batch, lr, clip):
        loss = reference_models.mean_loss(self.model, batch)
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip or float("inf"))
        self.optimizer.step()
        return loss.item(), lr, norm.item()

    def kept(self, average):
        """What a checkpoint holds beside the model, under its names there."""
        tensors = {f"optim/{name}/{key}": value for name, parameter in self.model.named_parameters()
                   for key, value in self.optimizer.state.get(parameter, {}).items() if key != "step" and value is not None}
        return {**tensors, **({f"ema/{name}": value for name, value in self.average.items()} if average else {})}


def within(what, actual, expected, limit):
    error = abs(actual - expected) / abs(expected)
    assert error <= limit, f"{what}: {actual}, expected {expected} (relative error {error:.1e})"
    return error


def compare_tensors(what, actual, expected):
    """The name of the tensor that differs most and how much. Names and types must be the same."""
    assert actual.keys() == expected.keys(), f"{what}: {actual.keys() ^ expected.keys()}"
    for name, value in expected.items():
        assert actual[name].dtype == value.dtype, f"{what}: {name} is {actual[name].dtype}, expected {value.dtype}"
    # A compensation is what rounding the weights lost: two implementations of the same accuracy agree in none of it.
    errors = {name: dump.relative_error(actual[name], expected[name].detach()) for name in expected
              if not name.endswith("/compensation")}
    worst = dump.worst_of(errors)
    return worst, errors[worst]


def overrides_of(case):
    optimizer, schedule, peak, lr_factors, clip, average, _, overrides = case
    return [*overrides, *OPTIMIZERS[optimizer][0], f"optim.lr={peak}", f"schedule.kind={schedule}",
            *SCHEDULES[schedule][0], *groups(lr_factors), f"train.clip_grad_norm={clip or 0.0}",
            *([f"optim.ema_decay={average}"] if average else [])]


def train_in_halves(args, run, overrides, ranks):
    """All steps, of which the second half starts from the first half's checkpoint on another number of ranks."""
    trained.train(args, run, overrides, ranks)
    shutil.rmtree(trained.step_folder(run, STEPS))
    return trained.train(args, run, overrides, 1 if ranks > 1 else 2)


class RoundedOnce(TorchDispatchMode):
    """Products of bf16 are summed in fp32 and rounded once, as processors with instructions for bf16 do. Elsewhere torch
    rounds sums of parts."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default) and args[0].dtype == torch.bfloat16:
            return function(*(arg.float() for arg in args), **(kwargs or {})).bfloat16()
        return function(*args, **(kwargs or {}))


def compare_one_step(args, folder, scale, ranks):
    """One step of matrices against torch.optim.Muon with the same gradients. Without Nesterov's momentum, the first one
    that is orthogonalized is the momentum that the checkpoint holds."""
    name = f"muon-step-{scale}"
    overrides, _ = muon(0.9, False, 5, scale)
    overrides = [*overrides, "optim.lr=3e-3", "schedule.kind=constant", "train.steps=1"]
    outputs = dump.dump(args, folder, 1, [{"name": f"start-{name}", "mode": "weights", "overrides": overrides}])
    start = dump.Dump(outputs[f"start-{name}"], 1, ("weights",)).tensors["weights"]
    trained.train(args, folder / name, overrides, ranks)
    output = trained.consolidate(args, folder / name, "safetensors", folder / f"{name}-out", "--optimizer")
    found = safetensors.torch.load_file(output / "model.safetensors")
    states = safetensors.torch.load_file(output / "optimizer.safetensors")
    apart, moved, off = 0, 0, 0
    for parameter, weight in start.items():
        momentum = states.get(f"optim/{parameter}/muon_momentum")
        assert (momentum is not None) == is_matrix(weight), parameter
        if momentum is None:
            continue
        right = weight.detach().clone().reshape(momentum.shape).requires_grad_()
        right.grad = momentum
        with RoundedOnce():
            torch.optim.Muon([right], 3e-3, DECAY, 0.0, False, adjust_lr_fn=ADJUST[scale]).step()
        difference, update = found[parameter] - right.detach(), found[parameter] - weight.reshape(momentum.shape)
        apart = max(apart, difference.abs().max().item())
        moved = max(moved, update.abs().max().item())
        off = max(off, (difference.norm() / update.norm()).item())
    said = f"{name}: on {ranks} ranks matrices moved by {moved:.1e}, within {apart:.1e} ({off:.1e} by norm) of torch.optim.Muon"
    assert (off <= LIMIT_MUON_UPDATE if ADDS_PAIRS else apart <= LIMIT_MUON_STEP) and moved > 100 * LIMIT_MUON_STEP, said
    print(f"ok {said}", flush=True)


def starts(args, folder):
    """The initial weights and the samples of every case: {"start-NAME", "ids-NAME": folder}."""
    return dump.dump(args, folder, 1, [request for name, case in CASES.items() for request in (
        {"name": f"start-{name}", "mode": "weights", "overrides": overrides_of(case)},
        {"name": f"ids-{name}", "mode": "ids", "overrides": overrides_of(case), "first": 0, "rows": STEPS * BATCH})])


def compare(args, folder, name, outputs):
    case = CASES[name]
    clip, average, ranks = case[4:7]
    limit = {"anyprecision_bf16": LIMIT_BF16, "anyprecision_mixed": LIMIT_BF16, "muon": LIMIT_MUON,
             "muon_spectral": LIMIT_MUON}.get(case[0], LIMIT)
    overrides = overrides_of(case)
    start = dump.Dump(outputs[f"start-{name}"], 1, ("weights",))
    reference = Reference(start, dump.read_ids(outputs[f"ids-{name}"], SEQ_LEN + 1), case)
    if clip:
        clipped = sum(norm > clip for _, _, norm in reference.history)
        assert clipped >= STEPS / 2, "clipping hardly happens: lower its limit"
    metrics = train_in_halves(args, folder / name, [*overrides, f"train.steps={STEPS}"], ranks)
    assert len(metrics) == STEPS
    for line, (loss, lr, norm) in zip(metrics, reference.history):
        within(f"{name} step {line['step']} loss", line["loss"], loss, limit)
        within(f"{name} step {line['step']} lr", line["lr"], lr, 1e-12)
        within(f"{name} step {line['step']} gradient norm", line["grad_norm"], norm, limit)
    output = trained.consolidate(args, folder / name, "safetensors", folder / f"{name}-out", "--optimizer")
    expected = dict(reference.model.named_parameters())
    weights = safetensors.torch.load_file(output / "model.safetensors")
    worst, error = compare_tensors(name, weights, expected)
    assert error <= limit, f"{name}: after {STEPS} steps {worst} differs by {error:.1e}"
    moved = dump.relative_error(start.tensors["weights"][worst], expected[worst].detach())
    assert moved > 40 * limit, f"the weights hardly moved ({moved:.1e}): nothing was compared"
    for parameter, value in expected.items():
        frozen = not value.requires_grad
        assert not frozen or torch.equal(weights[parameter], start.tensors["weights"][parameter]), f"{name}: {parameter} moved"
    kept = reference.kept(average)
    summary = f"weights within {error:.1e}"
    if kept:
        worst, error = compare_tensors(name, safetensors.torch.load_file(output / "optimizer.safetensors"), kept)
        assert error <= STATE_LIMITS[limit], f"{name}: after {STEPS} steps {worst} differs by {error:.1e}"
        summary += f", states within {error:.1e} ({worst})"
    print(f"ok {name}: {STEPS} steps, {summary}", flush=True)


if __name__ == "__main__":
    arguments = dump.arguments()
    with dump.Folder() as temporary:
        compare_one_step(arguments, temporary, "spectral", 3)
        compare_one_step(arguments, temporary, "match_adamw", 2)
        begun = starts(arguments, temporary)
        for case_name in CASES:
            compare(arguments, temporary, case_name, begun)
