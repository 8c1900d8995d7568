"""Steps of published models on two CPU ranks of one thread, beside the same training in PyTorch.

Both sides run in turn; the first step is not counted. Ratios are taken pair by pair, so that a machine whose speed drifts
still compares like with like."""
import statistics
import sys
from pathlib import Path

import torch

import echelon_runs
from machine import ROOT

LLAMA = "recipes/llama_179m_synthetic.yaml"
TOKENS = 2 * 512  # of a rank and step
PARAMETERS = 179_448_576
# As Llama::flops_per_token: 6 for each weight that multiplies, and attention over the whole sequence.
PRODUCT_FLOP = TOKENS * 6.0 * (PARAMETERS - 50_000 * 768)
STEP_FLOP = PRODUCT_FLOP + TOKENS * 12.0 * 12 * 768 * 512
TUNED_MALLOC = {"MALLOC_MMAP_THRESHOLD_": 1 << 30, "MALLOC_TRIM_THRESHOLD_": 1 << 34, "MALLOC_TOP_PAD_": 256 << 20}
COMPILED = ["--compile", "--warm-up", 2]  # it compiles in the second step too
ONE_THREAD = {"OMP_NUM_THREADS": 1}
TUNED = ONE_THREAD | TUNED_MALLOC
PEER = ROOT / "tests/bench/peers/train.py"
RATES = (7.5e-4, 1.5e-3, 3e-3, 6e-3, 1.2e-2)


def step_metrics(bench, tokens=None):
    bench.metric("step_s", "time per step", "s")
    if tokens:
        bench.metric("tokens_per_s", "tokens/s", "tokens/s", None)
    bench.metric("peak_rss_bytes", "peak memory of a rank", "bytes")


def with_rate(values, ranks, tokens):
    return values | {"tokens_per_s": ranks * tokens / values["step_s"]}


def peer(bench, steps, options, environment, ranks=2, python=None):
    command = [python or sys.executable, PEER, "--steps", steps, *options]
    said = bench.on_all_ranks(ranks, command, environment)[0]
    return {name: said[name] for name in ("step_s", "peak_rss_bytes")}


def compare(bench, case, steps, recipe, overrides, peers, tokens=None, ranks=2, full=3, quick=2, bounds=None,
            after=lambda: None):
    """peers: {side: (options of the peer, environment)}; bounds: {side: function}; after: adds what follows from the
    rounds so far."""
    def known(values):
        return with_rate(values, ranks, tokens) if tokens else values
    for _ in bench.rounds(full=full, quick=quick, cases=[case]):
        for side, function in (bounds or {}).items():
            case.measure(side, function, bench)
        case.measure("echelon", lambda: known(echelon_runs.steps(bench, recipe, ranks, steps, *overrides)))
        for side, (options, environment) in peers.items():
            python = bench.options.deepspeed if side == "deepspeed" else None
            case.measure(side, lambda: known(peer(bench, steps, options, environment, ranks, python)))
        after()


def matmul_rate(bench):
    """flop/s of a core while the others do the same."""
    script = ROOT / "tests/bench/peers/matmul_rate.py"
    return {"flop_per_s": statistics.mean(said["flops_per_s"] for said in bench.on_all_ranks(2, [sys.executable, script], ONE_THREAD))}


def train_llama(bench):
    """Steps of the 179 M Llama beside PyTorch FSDP2 (as installed, allocator tuned, compiled), FSDP1 and DeepSpeed ZeRO"""
    step_metrics(bench, TOKENS)
    bench.metric("flop_per_s", "products of bf16 matrices, a core", "flop/s", None)
    bench.fact("parameters", PARAMETERS, "", "of the model")
    sides = {"echelon": "Echelon", "fsdp2": "FSDP2", "fsdp2_tuned": "FSDP2, allocator tuned",
             "fsdp2_compiled": "FSDP2, allocator tuned, blocks compiled", "fsdp1": "FSDP1, allocator tuned"}
    common = ["--engine", "fsdp2", "--model", "llama"]
    peers = {"fsdp2": (common, ONE_THREAD), "fsdp2_tuned": (common, TUNED), "fsdp2_compiled": ([*common, *COMPILED], TUNED),
             "fsdp1": (["--engine", "fsdp1", "--model", "llama"], TUNED)}
    if bench.options.deepspeed:
        sides["deepspeed"] = "DeepSpeed ZeRO-3, allocator tuned"
        peers["deepspeed"] = (["--engine", "deepspeed", "--model", "llama"], TUNED)
    case = bench.case("default", "179 M Llama", sides | {"products": "libtorch's products alone"}, bounds=["products"])
    bench.wanted("default")
    compare(bench, case, bench.pick(4, 2, 1), LLAMA, ["train.global_batch_size=4"], peers, TOKENS,
            bounds={"products": matmul_rate}, after=lambda: add_limits(bench, case, sides))


def add_limits(bench, case, sides):
    """What follows from the rate of products: how fast any program could be, and how near each side comes to that."""
    least = STEP_FLOP / case.median("products", "flop_per_s")
    bench.fact("product_flop", PRODUCT_FLOP, "flop", "products of matrices of a step, on a rank")
    bench.fact("step_flop", STEP_FLOP, "flop", "the same and attention")
    bench.fact("least_step_s", least, "s", "step of a program that only multiplies, as fast as libtorch")
    bench.fact("most_speedup", case.median("fsdp2", "step_s") / least, "ratio", "of such a program, beside FSDP2")
    for side, title in sides.items():
        if side not in case.failed:
            bench.fact(f"{side}_share", least / case.median(side, "step_s"), "share", f"of the products' rate that a step reaches: {title}")


def train_llama_variants(bench):
    """The same with full activation checkpointing, and with weights that stay gathered, beside FSDP2"""
    step_metrics(bench, TOKENS)
    variants = {
        "full_checkpointing": ("full activation checkpointing", ["activation_checkpointing.policy=full"], ["--checkpoint"]),
        "shard_grad_op": ("`shard_grad_op`", ["shard.strategy=shard_grad_op"], ["--keep-gathered"]),
    }
    for name in bench.wanted(*variants):
        title, overrides, options = variants[name]
        options = ["--engine", "fsdp2", "--model", "llama", *options]
        case = bench.case(name, title, {"echelon": "Echelon", "fsdp2": "FSDP2", "fsdp2_tuned": "FSDP2, allocator tuned"})
        compare(bench, case, bench.pick(4, 2, 1), LLAMA, ["train.global_batch_size=4", *overrides],
                {"fsdp2": (options, ONE_THREAD), "fsdp2_tuned": (options, TUNED)}, TOKENS, quick=1)


def train_t5(bench):
    """Steps of T5 small beside PyTorch FSDP1, as the tutorial on FSDP trains it"""
    step_metrics(bench)
    variants = {"varied": ("lengths vary", [], ["--varied"]), "full": ("full length", ["data.full_length=true"], [])}
    for name in bench.wanted(*variants):
        title, overrides, options = variants[name]
        options = ["--engine", "fsdp1", "--model", "t5", "--rows", 4, *options]
        case = bench.case(name, title, {"echelon": "Echelon", "fsdp1": "FSDP1", "fsdp1_tuned": "FSDP1, allocator tuned"})
        compare(bench, case, bench.pick(5, 2, 1), "tests/bench/t5_small.yaml",
                ["train.global_batch_size=8", *overrides],
                {"fsdp1": (options, ONE_THREAD), "fsdp1_tuned": (options, TUNED)})


def train_gpt2(bench):
    """Steps of GPT-2 (124 M) beside PyTorch FSDP2 (as installed, allocator tuned, compiled)"""
    step_metrics(bench, TOKENS)
    common = ["--engine", "fsdp2", "--model", "gpt2"]
    sides = {"echelon": "Echelon", "fsdp2": "FSDP2", "fsdp2_tuned": "FSDP2, allocator tuned"}
    peers = {"fsdp2": (common, ONE_THREAD), "fsdp2_tuned": (common, TUNED)}
    if bench.options.mode == "full":  # it compiles for minutes
        sides["fsdp2_compiled"] = "FSDP2, allocator tuned, blocks compiled"
        peers["fsdp2_compiled"] = ([*common, *COMPILED], TUNED)
    case = bench.case("default", "GPT-2", sides)
    bench.wanted("default")
    compare(bench, case, bench.pick(4, 2, 1), "tests/bench/gpt2.yaml", [], peers, TOKENS, quick=1)


def train_mnist(bench):
    """Steps of the MNIST tutorials' network beside PyTorch DDP, FSDP1 and FSDP2"""
    step_metrics(bench)
    strategies = {
        "no_shard": ("`no_shard`", ["shard.strategy=no_shard"], {"ddp": "DDP"}),
        "full_shard": ("`full_shard`", ["shard.strategy=full_shard"], {"fsdp1": "FSDP1", "fsdp2": "FSDP2"}),
    }
    for name in bench.wanted(*strategies):
        title, overrides, peers = strategies[name]
        case = bench.case(name, title, {"echelon": "Echelon"} | peers)
        compare(bench, case, bench.pick(20, 20, 2), "recipes/mnist_smoke.yaml",
                ["train.micro_batch_size=64", "train.global_batch_size=128", "checkpoint.every_steps=0", *overrides],
                {side: (["--engine", side, "--model", "cnn", "--rows", 64], ONE_THREAD) for side in peers}, full=5, quick=3)


def scaling(bench):
    """Tokens per second of a 19 M Llama on 1 to 8 ranks, two sequences a rank, beside PyTorch FSDP2"""
    bench.metric("tokens_per_s", "tokens/s", "tokens/s", "higher")
    bench.metric("step_s", "time per step", "s", None)
    bench.metric("peak_rss_bytes", "peak memory of a rank", "bytes", "lower")
    bench.lay_out("columns")
    sizes = ["model.vocab_size=8000", "model.hidden_size=384", "model.intermediate_size=1536", "model.layers=6", "model.heads=6"]
    cores = bench.document["machine"]["cores"]
    for ranks in map(int, bench.wanted("1", "2", "4", "8")):
        title = f"{ranks} rank" + "s" * (ranks > 1) + " (oversubscribed)" * (ranks > cores)
        case = bench.case(str(ranks), title,
                          {"echelon": "Echelon", "fsdp2_tuned": "FSDP2, allocator tuned"})
        compare(bench, case, bench.pick(4, 4, 1), LLAMA, [f"train.global_batch_size={2 * ranks}", *sizes],
                {"fsdp2_tuned": (["--engine", "fsdp2", "--model", "small"], TUNED)}, TOKENS, ranks, quick=1)
    bench.notes.append(f"the machine has {cores} cores: more ranks share them, which shows what oversubscription costs, not scaling")


def losses(bench, folder, steps, validations, seed, rate, *overrides):
    """{step: validation loss} of the quickstart's run with other overrides."""
    lines, _ = echelon_runs.whole(
        bench, "recipes/quickstart.yaml", 2, f"data.path={folder}/train.tok", f"data.validation.path={folder}/valid.tok",
        f"run.seed={seed}", f"optim.lr={rate}", f"train.steps={steps}", f"schedule.warmup_steps={steps // 10}",
        f"train.validate_every_steps={steps // validations}", "checkpoint.every_steps=0", *overrides)
    return {line["step"]: line["validation_loss"] for line in lines if line.get("validation_loss") is not None}


def quickstart_loss(bench):
    """Validation loss of the quickstart's Llama with AdamW, with Muon, and with AdamW and products in fp8, over three seeds"""
    # The rate of each optimizer is the best of five with a seed that is not compared. fp8 takes AdamW's.
    steps = bench.pick(200, 200, 8)
    quarters = [steps // 4 * quarter for quarter in (1, 2, 3, 4)]
    for step in quarters:
        bench.metric(f"loss_{step}", f"loss after {step} steps", "", None)
    bench.lay_out("rows", compares=False)
    kinds = {"adamw": ["optim.kind=adamw"], "muon": ["optim.kind=muon"], "fp8": ["precision.matmul=fp8"]}
    titles = {"adamw": "AdamW", "muon": "Muon", "fp8": "AdamW, products in fp8"}
    case = bench.case("default", "the quickstart's Llama", titles, ours=())
    bench.wanted("default")
    curves = []

    def measured(side, seed):
        curve = losses(bench, folder, steps, bench.pick(20, 20, 4), seed, best[side], *kinds[side])
        if side == "muon":
            curves.append(curve)
        return {f"loss_{step}": curve[step] for step in quarters}

    with bench.scratch() as folder:
        bench.run([bench.echelon, "prepare", Path(torch.__file__).parent, "--format", "code", "--include", "*.py", "--output", folder,
                   "--train-tokenizer", 4096])
        best = {}
        for side in ("adamw", "muon"):
            tried = {rate: losses(bench, folder, steps, 1, 99, rate, *kinds[side])[steps]
                     for rate in bench.pick(RATES, RATES, RATES[:1])}
            best[side] = min(tried, key=tried.get)
            bench.fact(f"{side}_rate", best[side], "", f"the best learning rate of {titles[side]}")
            bench.fact(f"{side}_tried", ", ".join(f"{rate:g}: {loss:.3f}" for rate, loss in tried.items()), "", "rates and losses")
        best["fp8"] = best["adamw"]
        for seed in bench.rounds(full=3, quick=1):
            for side in kinds:
                case.measure(side, measured, side, seed)
    goal = case.median("adamw", f"loss_{steps}")
    reached = [next((step for step, loss in curve.items() if loss <= goal), "none") for curve in curves]
    bench.fact("muon_steps", ", ".join(map(str, reached)), "", "by seed, the first step of Muon with AdamW's last median loss")
    bench.fact("steps", steps, "count", "of each run")
