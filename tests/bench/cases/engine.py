"""Parts of the engine: what a unit costs, collectives, what each choice of a recipe costs in time and memory."""
import re
import statistics
import sys

import echelon_runs
from machine import ROOT
from recorder import LeftOut

LLAMA = "recipes/llama_179m_synthetic.yaml"


def host_cost(bench, ranks):
    """Of many tiny units, so that nothing else counts."""
    _, log = echelon_runs.whole(
        bench, "recipes/smoke.yaml", ranks, "model.layers=100", "model.hidden_size=16", "model.heads=2", "model.kv_heads=1",
        "model.intermediate_size=16", "model.vocab_size=32", "model.max_positions=64", "data.seq_len=8", "train.micro_batch_size=1",
        f"train.global_batch_size={ranks}", "train.steps=30", "precision.param=bf16", "checkpoint.every_steps=0", "schedule.warmup_steps=0")
    found = re.findall(r"around \d+ passes of units: ([\d.]+) us each .*?, ([\d.]+) us each waiting", log)
    return {"host_s": float(found[-1][0]) * 1e-6}


def unit_cost(bench):
    """Host time that sharding adds to a unit and pass, beside PyTorch FSDP2"""
    # Echelon counts it while it runs (casts, book-keeping, issuing; waiting apart). The peer's is an FSDP2 step of tiny
    # linear layers less the same step without sharding, on one rank, which has no other to wait for.
    bench.metric("host_s", "host time per unit and pass", "s")
    ranks = {"1": {"echelon": "Echelon, 1 rank", "fsdp2": "FSDP2, 1 rank"}, "2": {"echelon": "Echelon, 2 ranks"}}
    for name in bench.wanted(*ranks):
        case = bench.case(name, f"{name} rank" + "s" * (name != "1"), ranks[name])
        for _ in bench.rounds(full=5, quick=2):
            case.measure("echelon", host_cost, bench, name)
            if name == "1":
                script = ROOT / "tests/bench/peers/unit_cost.py"
                case.measure("fsdp2", lambda: bench.on_all_ranks(1, [sys.executable, script])[0])


def logging(bench):
    """Steps of a tiny model on two ranks with a line of metrics for each, beside steps without lines"""
    bench.metric("step_s", "time per step", "s", None)
    bench.lay_out("rows", compares=False)
    sides = {"none": (100_000, []), "lines": (1, []),
             "exports": (1, ["metrics.tensorboard=true", "metrics.prometheus=true", "metrics.csv=true"])}
    titles = {"none": "no lines", "lines": "a line for each step", "exports": "the same, with TensorBoard, Prometheus and CSV"}
    case = bench.case("lines", "tiny model", titles, ours=())
    bench.wanted("lines")
    steps = bench.pick(4000, 2000, 100)

    def measured(every, overrides):
        lines, _ = echelon_runs.whole(bench, "recipes/smoke.yaml", 2, f"train.steps={steps}", "checkpoint.every_steps=0",
                                      *overrides, f"metrics.every_steps={every}")
        first, last = lines[0], lines[-1]
        return {"step_s": (last["time"] - first["time"]) / (last["step"] - first["step"])}

    for _ in bench.rounds(full=7, quick=3):
        for side, (every, overrides) in sides.items():
            case.measure(side, measured, every, overrides)
    for side in ("lines", "exports"):
        more = [round_[side]["step_s"] - round_["none"]["step_s"] for round_ in case.fields["rounds"]]
        bench.fact(f"{side}_s", statistics.median(more), "s", f"of a step and line: {titles[side]}")
    bench.fact("least_step_s", statistics.median(more) / 0.005, "s", "shortest step of which that is at most 0.5 %")


def builds(bench):
    """Steps, start and host cost of this build beside another one (--beside ECHELON)"""
    if not bench.options.beside:
        raise LeftOut("name another build: --beside ECHELON")
    bench.metric("s", "time", "s")
    bench.lay_out("columns", compares=False)
    smoke = ["schedule.warmup_steps=0", "checkpoint.every_steps=0"]

    def train():
        return {"s": echelon_runs.steps(bench, "recipes/llama_smoke.yaml", 2, 12, *smoke)["step_s"]}

    def first_step():
        with bench.scratch() as folder:
            words = echelon_runs.command(bench, "recipes/smoke.yaml", 2, folder, "train.steps=2")
            return {"s": echelon_runs.seconds_to(bench, words, {"step": lambda line: line.startswith("step 1/")})["step"][0]}

    known = {"steps": ("a step of recipes/llama_smoke.yaml on two ranks", train),
             "start": ("from the command to the first step of recipes/smoke.yaml on two ranks", first_step),
             "unit": ("host time per unit and pass", lambda: {"s": host_cost(bench, 1)["host_s"]})}
    for name in bench.wanted(*known):
        title, function = known[name]
        case = bench.case(name, title, {"echelon": "this build", "beside": "the other build"})
        for _ in bench.rounds(full=5, quick=3, warm_up=1):
            case.measure("echelon", function)
            with bench.built_as(bench.options.beside):
                case.measure("beside", function)


def comm(bench):
    """Collectives of two CPU ranks, 64 MiB, beside Open MPI's own on the same buffers"""
    bench.metric("s", "time", "s")
    bench.lay_out("columns")
    program = bench.program("comm_bench")
    operations = {"all_gather_fp32": "all-gather, fp32", "reduce_scatter_fp32": "reduce-scatter, fp32",
                  "reduce_scatter_bf16": "reduce-scatter, bf16 in, fp32 sum", "all_reduce_fp32": "all-reduce, fp32",
                  "all_reduce_one": "all-reduce of one fp64"}
    cases = {name: bench.case(name, operations[name], {"echelon": "Echelon", "mpi": "Open MPI"}) for name in bench.wanted(*operations)}
    command = [*bench.mpirun, "-n", 2, program, 64, 1]
    for _ in bench.rounds(full=15, quick=15, cases=list(cases.values())):
        measured = {line["operation"]: line for line in bench.json_lines(command)}
        for name, case in cases.items():
            case.fields["commands"] = dict.fromkeys(("echelon", "mpi"), [bench.text(command)])
            case.add("echelon", s=measured[name]["echelon_s"])
            case.add("mpi", s=measured[name]["mpi_s"])


UNSET = ["precision.param=unset", "precision.reduce=unset", "precision.buffer=unset"]
CHOICES = {
    "fp32": ("`precision: {preset: fp32}`", ["precision.preset=fp32", *UNSET]),
    "shard_grad_op": ("`shard.strategy: shard_grad_op`", ["shard.strategy=shard_grad_op"]),
    "shard_optimizer": ("`shard.strategy: shard_optimizer`", ["shard.strategy=shard_optimizer"]),
    "no_shard": ("`shard.strategy: no_shard`", ["shard.strategy=no_shard"]),
    "one_unit": ("`shard.wrap.policy: none`", ["shard.wrap.policy=none"]),
    "size_based": ("`shard.wrap: {policy: size_based, min_params: 5000000}`",
                   ["shard.wrap.policy=size_based", "shard.wrap.min_params=5000000"]),
    "no_prefetch": ("`shard.backward_prefetch: none`, `forward_prefetch: 0`",
                    ["shard.backward_prefetch=none", "shard.forward_prefetch=0"]),
    "offload": ("`shard.offload: cpu`", ["shard.offload=cpu"]),
    "checkpoint_full": ("`activation_checkpointing.policy: full`", ["activation_checkpointing.policy=full"]),
    "checkpoint_every_n": ("`activation_checkpointing.policy: every_n`", ["activation_checkpointing.policy=every_n"]),
    "checkpoint_selective": ("`activation_checkpointing.policy: selective`", ["activation_checkpointing.policy=selective"]),
    "accumulate": ("4 micro-batches per step (time of one)", ["train.global_batch_size=16"]),
    "reduce_last": ("4 micro-batches, `reduce_gradients: last_micro_batch`",
                    ["train.global_batch_size=16", "train.reduce_gradients=last_micro_batch"]),
    "bf16_pure": ("`precision.preset: bf16_pure`, anyprecision_adamw",
                  ["precision.preset=bf16_pure", *UNSET, "optim.kind=anyprecision_adamw"]),
}


def chosen(bench, overrides, steps=3):
    lines = echelon_runs.until_step(bench, LLAMA, 2, steps, *overrides)[1:]
    passes = 4 if "train.global_batch_size=16" in overrides else 1
    return {"step_s": statistics.median(line["step_time_s"] for line in lines) / passes,
            "peak_rss_bytes": lines[-1]["peak_rss_bytes"], "waiting_s": statistics.median(line["comm_wait_s"] for line in lines)}


def policies(bench):
    """Time and memory of each strategy, policy and precision on the 179 M Llama, beside the default in turn"""
    bench.metric("step_s", "time per micro-batch", "s")
    bench.metric("peak_rss_bytes", "memory per rank", "bytes")
    bench.metric("waiting_s", "waiting per step", "s", None)
    bench.lay_out("pairs", compares=False)
    for name in bench.wanted(*CHOICES):
        title, overrides = CHOICES[name]
        case = bench.case(name, title, {"base": "`full_shard`, one unit per layer, bf16", "changed": title}, ours=("base",))
        for _ in bench.rounds(full=2, quick=1):
            case.measure("base", chosen, bench, [])
            case.measure("changed", chosen, bench, overrides)
