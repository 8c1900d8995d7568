"""The steps of device.py, in order. Each returns its facts, or raises runs.Skipped or runs.Failed."""
import dataclasses
import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import sys
from typing import Callable

from runs import Failed, Machine, Skipped, largest_difference, last_line, losses

# Relative difference that the losses of two devices may have after ten steps: other sums, other exponentials.
CLOSE = {"fp32": 2e-4, "bf16_fp32_reduce": 3e-2}
SMOKES = ("llama_smoke", "llama_3_2_smoke", "mistral_smoke", "qwen2_smoke", "qwen3_smoke", "olmo2_smoke", "olmo3_smoke",
          "smollm3_smoke", "granite_smoke", "phi3_smoke", "gemma3_smoke", "gpt_smoke", "neox_smoke", "t5_smoke", "deepvit_smoke", "mnist_smoke")
CHANGED = {
    # At the recipe's learning rate of 1 the losses of two precisions part by a tenth within ten steps, on one device too.
    "mnist_smoke": ["optim.lr=0.05"],
    # No fused attention of a GPU takes its 6 in fp32.
    "qwen2_smoke": ["model.head_size=8"],
}
TEN_STEPS = ["train.steps=10", "checkpoint.every_steps=0"]
REPEATED = ("llama_smoke", "qwen3_smoke", "gpt_smoke", "neox_smoke", "t5_smoke", "deepvit_smoke", "mnist_smoke")
FP8 = "products in fp8"  # left out where the device has none
FEATURES = {
    "fp16": ("smoke", ["precision.preset=fp16"]),
    "gradients summed over passes": ("smoke", ["precision.preset=bf16_fp32_reduce", "train.micro_batch_size=2"]),
    "AnyPrecision AdamW": ("smoke", ["precision.preset=bf16_pure", "optim.kind=anyprecision_adamw"]),
    "weight averages": ("smoke", ["optim.ema_decay=0.9"]),
    "LoRA": ("lora_smoke", []),
    "tied embeddings": ("smoke", ["model.tie_embeddings=true", "precision.preset=bf16_fp32_reduce"]),
    FP8: ("smoke", ["precision.preset=bf16_fp32_reduce", "precision.matmul=fp8"]),
    "gated GELU": ("t5_smoke", ["model.feed_forward=gated_gelu", "precision.preset=bf16_fp32_reduce"]),
}
STRATEGIES = {
    "full_shard": [], "shard_grad_op": ["shard.strategy=shard_grad_op"], "no_shard": ["shard.strategy=no_shard"],
    "offload": ["shard.offload=cpu"], "kept after forward": ["shard.reshard_after_forward=false"],
    "no prefetch": ["shard.forward_prefetch=0", "shard.backward_prefetch=none"],
    "full recomputation": ["activation_checkpointing.policy=full"],
    "selective recomputation": ["activation_checkpointing.policy=selective"],
    "offloaded recomputation": ["activation_checkpointing.policy=full", "activation_checkpointing.offload=true"],
}
# 1.5 B parameters; 32,768 tokens a step.
LARGE = "llama_1_5b.yaml"
LORA = "llama_8b_lora.yaml"
LARGE_STEPS = 16
ROUNDS = 3
PEER_ROWS = (8, 4, 2, 1)
SKIPPED_STEPS = 5  # of a measured run: allocators and clocks settle
TINY = ["model.vocab_size=512", "model.hidden_size=64", "model.intermediate_size=192", "model.layers=2", "model.heads=4",
        "model.kv_heads=2", "data.seq_len=32"]
TINY_PEER = ["--vocab", 512, "--hidden", 64, "--inner", 192, "--layers", 2, "--heads", 4, "--kv-heads", 2, "--seq-len", 32]
ABLATIONS = {
    FP8: ["precision.matmul=fp8"],
    "selective recomputation": ["activation_checkpointing.policy=selective"],
    "full recomputation": ["activation_checkpointing.policy=full"],
    "2 sequences a pass": ["train.micro_batch_size=2"],
    "4 sequences a pass": ["train.micro_batch_size=4"],
    "no_shard": ["shard.strategy=no_shard"],
    "kept after forward": ["shard.reshard_after_forward=false"],
    "no prefetch": ["shard.forward_prefetch=0", "shard.backward_prefetch=none"],
    "gradients reduced in bf16": ["precision.reduce=bf16"],
    "AnyPrecision AdamW": ["optim.kind=anyprecision_adamw", "precision.master=bf16"],
    "no clipping": ["train.clip_grad_norm=0"],
    "deterministic": ["train.deterministic=true"],
    "no reading ahead": ["data.workers=0"],
}


# One of them compiles what Triton launches.
COMPILERS = ("cc", "gcc", "clang")
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")


@dataclasses.dataclass
class Step:
    name: str
    stage: int
    what: str
    run: Callable[[Machine], dict]
    limit_s: float = 120
    least_s: float = 20  # not begun with less than this left of the stage
    needs_device: bool = True


def facts(machine):
    """The machine, in words; never fails for want of a tool."""
    def said(*words):
        return machine.run(words, code=None, plain=True).stdout.strip() if shutil.which(words[0]) else "not here"

    torch = machine.run([sys.executable, "-c", (
        "import json, torch; print(json.dumps({'torch': torch.__version__, 'cuda': torch.version.cuda, "
        "'cudnn': torch.backends.cudnn.version() if torch.cuda.is_available() else None, "
        "'nccl': list(torch.cuda.nccl.version()) if torch.cuda.is_available() else None}))")], plain=True).stdout
    asked = "name,driver_version,memory.total,power.limit,clocks.max.sm,clocks.max.mem,pcie.link.gen.current,mig.mode.current"
    bundle = machine.bundle / "bundle.json"
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {
        "gpu": said("nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"), "gpu_fields": asked,
        **json.loads(torch.splitlines()[-1]), "python": platform.python_version(), "glibc": platform.libc_ver()[1],
        "system": platform.platform(), "cores": len(os.sched_getaffinity(0)), "processor": model.group(1) if model else "",
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "tools": {tool: shutil.which(tool) or "" for tool in ("compute-sanitizer", "nsys", "ncu", "cuda-gdb", *COMPILERS)},
        "bundle": json.loads(bundle.read_text()) if bundle.exists() else {}, "no_device": machine.no_device}


def programs(machine):
    """The programs start, train on the CPU and take up what they saved: without a device, too."""
    version = machine.run([machine.echelon, "--version"]).stdout.strip()
    one = machine.train("smoke", "one", device="cpu")
    found = {"version": version, "losses_differ_by": {}}
    if shutil.which("mpirun", path=machine.environment["PATH"]):
        two = machine.train("smoke", "two", ranks=2, device="cpu")
        found["losses_differ_by"]["2 ranks"] = largest_difference(one, two)
        if found["losses_differ_by"]["2 ranks"] > CLOSE["fp32"]:
            raise Failed("two ranks learn something else than one", found)
    machine.run([machine.ckpt, "verify", "--deep", "one"])
    return found


def gtest(machine, program, *before):
    """Numbers of a gtest program, and what failed in it."""
    report = machine.scratch / f"{program}.json"
    run = machine.run([*before, machine.bundle / "bin" / program, f"--gtest_output=json:{report}"], code=None)
    if not report.exists():
        raise Failed(f"{program} ended with {run.returncode} and no report: {last_line(run.stderr or run.stdout)}")
    tests = [{**test, "suite": suite["name"]} for suite in json.loads(report.read_text())["testsuites"]
             for test in suite["testsuite"]]
    failed = {f"{test['suite']}.{test['name']}": test["failures"][0]["failure"][:400] for test in tests if "failures" in test}
    skipped = sum(test["result"] == "SKIPPED" for test in tests)
    found = {"tests": len(tests), "failed": failed, "skipped": skipped}
    if failed or run.returncode:
        raise Failed(f"{len(failed)} of {len(tests)} tests failed: {', '.join(sorted(failed))[:200]}", found)
    if skipped == len(tests):
        why = re.search(r": Skipped\n(.*)", run.stdout)
        raise Skipped(why.group(1) if why else "every test skipped")
    return found


def tests_of(program):
    return lambda machine: gtest(machine, program)


def tests_of_nccl(machine):
    if not shutil.which("mpirun", path=machine.environment["PATH"]):
        raise Skipped("no mpirun in the bundle")
    return gtest(machine, "dist_comm_nccl", "mpirun", "-n", 1, "--allow-run-as-root")


def sanitizer(machine):
    """NVIDIA's sanitizers over the kernels, where the machine has them."""
    if machine.trial or not shutil.which("compute-sanitizer"):
        raise Skipped("compute-sanitizer is not on this machine")

    def check(tool):
        ran = machine.run(["compute-sanitizer", "--tool", tool, "--error-exitcode", 9, machine.bundle / "bin/gpu_reduce"], code=None)
        if "not supported" in ran.stdout + ran.stderr:
            raise Skipped("compute-sanitizer does not support this device")
        if ran.returncode:
            raise Failed(last_line(ran.stdout))
        return {"said": last_line(ran.stdout)}

    return machine.for_each({tool: tool for tool in SANITIZERS}, check)


def ceilings(machine):
    return machine.python_json("ceilings.py", *(["--trial"] if machine.trial else []))


def close(mine, theirs, limit):
    """The largest relative difference of two runs' losses."""
    difference = largest_difference(mine, theirs)
    if difference > limit:
        raise Failed(f"losses differ by {difference:.1e}, more than {limit:.0e}")
    return difference


def beside_cpu(machine, recipe, name, changes, limit):
    """How far the losses of ten steps are from the CPU's."""
    changes = [*changes, *TEN_STEPS]
    cpu = machine.train(recipe, f"cpu-{name}", *changes, device="cpu")
    return close(machine.train(recipe, f"gpu-{name}", *changes), cpu, limit)


def same_losses_as_cpu(machine):
    def compare(item):
        name, precision = item
        changes = [f"precision.preset={precision}", *CHANGED.get(name, [])]
        return beside_cpu(machine, name, f"{name}-{precision}", changes, CLOSE[precision])

    return machine.for_each({f"{name} {precision}": (name, precision) for name in SMOKES for precision in CLOSE}, compare)


def possible(machine, items):
    return {name: item for name, item in items.items() if name != FP8 or machine.has_fp8}


def features(machine):
    """What changes the arithmetic of a step, beside the CPU."""
    def compare(item):
        recipe, changes = item
        number = list(FEATURES.values()).index(item)
        return beside_cpu(machine, recipe, f"feature-{number}", changes, CLOSE["bf16_fp32_reduce"])

    return machine.for_each(possible(machine, FEATURES), compare)


def strategies(machine):
    cpu = machine.train("smoke", "strategy-cpu", *TEN_STEPS, device="cpu")
    return machine.for_each(STRATEGIES, lambda changes: close(
        machine.train("smoke", f"strategy-{list(STRATEGIES.values()).index(changes)}", *TEN_STEPS, *changes), cpu, CLOSE["fp32"]))


def shared_gpu(machine):
    """Several ranks on one GPU, whose collectives go through the host."""
    if not shutil.which("mpirun", path=machine.environment["PATH"]):
        raise Skipped("no mpirun in the bundle")
    device = "cpu" if machine.trial else "cuda_shared"
    cpu = machine.train("smoke", "shared-cpu", *TEN_STEPS, device="cpu")

    def compare(item):
        ranks, name = item
        lines = machine.train("smoke", f"shared-{ranks}-{name}", *TEN_STEPS, f"shard.strategy={name}", ranks=ranks, device=device)
        return close(lines, cpu, CLOSE["fp32"])

    return machine.for_each({f"{name} on {ranks} ranks": (ranks, name) for ranks in (2, 4)
                             for name in ("full_shard", "shard_grad_op", "no_shard")}, compare)


def killed_and_resumed(machine):
    """SIGKILL between two saves, and the same command again: the losses of a run that nobody disturbed."""
    steps, every = (60, 10) if machine.trial else (400, 20)
    base = [f"train.steps={steps}", f"checkpoint.every_steps={every}", "checkpoint.async=false"]
    whole = machine.train("smoke", "undisturbed", *base)
    before = machine.train_until(steps // 2 + every // 2, "smoke", "killed", *base)
    after = machine.train("smoke", "killed", *base)
    machine.run([machine.ckpt, "verify", "--deep", "killed"])
    found = {"killed_at_step": before[-1]["step"], "losses_differ_by": largest_difference(after, whole),
             "bitwise_equal": losses(after) == losses(whole)}
    if not found["losses_differ_by"] <= CLOSE["fp32"]:
        raise Failed("the resumed run learns something else", found)
    return found


def deterministic(machine):
    """train.deterministic: two runs are equal in every bit; whether they are without it is noted."""
    def repeat(item):
        name, key = item
        first, second = (machine.train(name, f"again-{name}-{key}-{turn}", f"train.deterministic={key}", *TEN_STEPS)
                         for turn in (1, 2))
        if key == "true" and losses(first) != losses(second):
            raise Failed("two runs differ")
        return losses(first) == losses(second)

    return machine.for_each({f"{name}, {key}": (name, key) for name in REPEATED for key in ("true", "false")}, repeat)


def text(machine):
    """Prepare, train, sample: a small Llama on the Python sources of torch."""
    sources = pathlib.Path(machine.run([sys.executable, "-c", "import torch; print(torch.__path__[0])"], plain=True).stdout.strip())
    if machine.trial:
        sources /= "nn"
    machine.run([machine.echelon, "prepare", sources, "--format", "code", "--include", "*.py", "--output", "data/quickstart",
                 "--train-tokenizer", 512 if machine.trial else 4096])
    few, tiny = ["train.steps=4", "schedule.warmup_steps=1"], TINY if machine.trial else []
    lines = machine.train("quickstart", "text", *(few if machine.trial else []), *tiny)
    packed = ["data.packing=documents", "checkpoint.every_steps=0", *few, *tiny]
    cpu = machine.train("quickstart", "packed-cpu", *packed, device="cpu")
    packed_differ_by = close(machine.train("quickstart", "packed", *packed), cpu, CLOSE["bf16_fp32_reduce"])
    said, of_cpu = (machine.run([machine.echelon, "sample", "text", "--prompt", "def forward(self, x):", "--tokens", 24,
                                 "--device", device]).stdout for device in (machine.device, "cpu"))
    return {"first_loss": lines[0]["loss"], "last_loss": lines[-1]["loss"], "tokens_per_s": lines[-1]["tokens_per_s"],
            "sample": said, "samples_as_cpu": said == of_cpu, "packed_differ_by": packed_differ_by}


def measured(lines):
    lines = [line for line in lines if line["step"] > SKIPPED_STEPS]
    middle = {key: statistics.median(line[key] for line in lines) for key in ("step_time_s", "tokens_per_s", "data_wait_s")}
    rates = [line["mfu"] for line in lines if line.get("mfu")]
    return {**middle, "mfu": statistics.median(rates) if rates else None, "steps": len(lines),
            "peak_device_bytes": lines[-1]["peak_device_bytes"]}


def large(machine, folder, *changes, recipe=LARGE, extra=None):
    """A run of the 1.5 B Llama, ended before it saves."""
    recipe = pathlib.Path(__file__).with_name(recipe)
    lines = machine.train_until(LARGE_STEPS, recipe, folder, f"train.steps={LARGE_STEPS + 1}", *changes,
                                *(TINY if machine.trial else []), extra=extra)
    return measured(lines)


def median_round(machine, measure):
    """The round whose speed is the median, with the speeds of all."""
    rounds = sorted((measure(number) for number in range(1 if machine.trial else ROUNDS)), key=lambda found: found["tokens_per_s"])
    return {**rounds[len(rounds) // 2], "rounds_tokens_per_s": [found["tokens_per_s"] for found in rounds]}


def throughput(machine):
    return median_round(machine, lambda number: large(machine, f"large-{number}"))


def most_rows(choices, measure):
    """What `measure` finds with the most sequences a step that the memory holds."""
    for rows in choices:
        found = measure(rows)
        if not found.get("out_of_memory"):
            return {**found, "rows": rows, "rows_wanted": choices[0]}
    raise Failed("not enough memory for one sequence")


def peer(*options):
    """FSDP2 with the same model and batch; with fewer sequences a step where its memory does not suffice."""
    def run(machine):
        if "--compile" in options and machine.trial:
            raise Skipped("not compiled in a trial")
        if "--compile" in options and not any(map(shutil.which, COMPILERS)):
            raise Skipped("there is no C compiler, which torch.compile needs")
        sizes = ["--device", "cpu", *TINY_PEER] if machine.trial else []

        def measure(rows):
            return machine.python_json("fsdp2_llama.py", "--steps", LARGE_STEPS, "--skip", SKIPPED_STEPS, "--rows", rows, *options,
                                       *sizes)

        first = most_rows(PEER_ROWS, measure)
        return {**first, **median_round(machine, lambda number: measure(first["rows"]) if number else first)}
    return run


def lora(machine):
    return large(machine, "lora", *(["lora.rank=2"] if machine.trial else []), recipe=LORA)


def peft(machine):
    """peft with the same adapters and batch; with fewer sequences a step where its memory does not suffice."""
    if machine.trial or not all(map(importlib.util.find_spec, ("peft", "transformers"))):
        raise Skipped("peft and transformers are not on this machine, or this is a trial")
    return most_rows((4, 2, 1), lambda rows: machine.python_json("peft_llama.py", "--rows", rows))


def ablations(machine):
    return machine.for_each(possible(machine, ABLATIONS), lambda changes: large(
        machine, f"ablation-{list(ABLATIONS.values()).index(changes)}", *changes))


def kernel_times(machine):
    """What the device did in the last steps of a run of the 1.5 B Llama, by kernel: ms and launches a step."""
    if machine.trial:
        raise Skipped("a CPU has no kernels to note")
    library = machine.bundle / "lib/libkernel_times.so"
    if not library.exists():
        raise Skipped("the bundle was made without CUPTI")
    file = machine.scratch / "kernel_times.txt"
    found = large(machine, "traced", extra={"CUDA_INJECTION64_PATH": library, "KERNEL_TIMES": file})
    spans = [line.split(" ", 3) for line in file.read_text(errors="replace").splitlines(keepends=True) if line.endswith("\n")]
    spans = sorted((int(begin), int(end), int(stream), name.strip()) for begin, end, stream, name in spans)
    if not spans:
        raise Failed("no kernel was noted")
    steps = LARGE_STEPS - SKIPPED_STEPS - 3  # the file may lack the last second
    ends = max(span[1] for span in spans) - int(found["step_time_s"] * 1e9)
    begins = ends - int(steps * found["step_time_s"] * 1e9)
    kernels, busy, reached = {}, 0, begins
    for begin, end, stream, name in spans:
        if begins <= begin < ends:
            of = kernels.setdefault((name[:160], stream), [0, 0])
            of[0] += end - begin
            of[1] += 1
            busy += max(0, end - max(begin, reached))
            reached = max(reached, end)
    rows = [{"name": name, "stream": stream, "ms": ns / steps / 1e6, "times": times / steps}
            for (name, stream), (ns, times) in sorted(kernels.items(), key=lambda item: -item[1][0])]
    return {**found, "busy_ms": busy / steps / 1e6, "kernels": rows[:80]}


def profile(machine):
    """--profile of a GPU rank, by the profiler of PyTorch: the time of the device, and its longest kernels."""
    large(machine, "profiled", "--profile", f"{SKIPPED_STEPS + 1}..{SKIPPED_STEPS + 2}")
    summary = json.loads((machine.scratch / "profiled/profile/summary.json").read_text())
    kernels = [row for row in summary["beside"] if row["operation"] == "kernel"]
    if not machine.trial and not kernels:
        raise Failed("no kernel was recorded")
    busy = summary["device_busy_s"] / summary["step_s"]
    if not machine.trial and not 0.5 < busy <= 1.05:
        raise Failed(f"the device is said to be busy for {busy:.2f} of a step")
    return {"busy": busy, "step_s": summary["step_s"], "kernels": kernels[:20]}


STEPS = [
    Step("facts", 1, "what this machine is", facts, 60, needs_device=False),
    Step("programs", 1, "the programs run here, on the CPU", programs, 90, needs_device=False),
    Step("gpu_kernels", 1, "the kernels beside the CPU's", tests_of("gpu_kernels"), 150, needs_device=False),
    Step("gpu_reduce", 1, "sums of pieces", tests_of("gpu_reduce"), 60, needs_device=False),
    Step("gpu_ops", 1, "operations and their gradients", tests_of("gpu_ops"), 120, needs_device=False),
    Step("dist_comm_nccl", 1, "NCCL, one rank", tests_of_nccl, 90),
    Step("ceilings", 1, "rates of copies and matrix products", ceilings, 120, 40),
    Step("sanitizer", 1, "NVIDIA's sanitizers over the kernels", sanitizer, 300, 60),
    Step("same_losses_as_cpu", 2, "each model, fp32 and bf16, beside the CPU", same_losses_as_cpu, 240, 30),
    Step("features", 2, "precisions, optimizers, adapters beside the CPU", features, 120, 30),
    Step("strategies", 2, "every strategy on one rank", strategies, 150, 30),
    Step("shared_gpu", 2, "2 and 4 ranks on one GPU", shared_gpu, 120, 30),
    Step("killed_and_resumed", 2, "SIGKILL, resume, the same losses", killed_and_resumed, 60, 30),
    Step("deterministic", 2, "two runs with the same bits", deterministic, 240, 30),
    Step("throughput", 2, "the 1.5 B Llama", throughput, 120, 60),
    Step("fsdp2", 2, "FSDP2, eager", peer(), 120, 60),
    Step("fsdp2_compiled", 2, "FSDP2, compiled", peer("--compile"), 180, 90),
    Step("text", 2, "prepare, train and sample on real text", text, 120, 60),
    Step("lora", 3, "adapters on a Llama of 8 B", lora, 120, 60),
    Step("peft", 3, "the same by peft", peft, 150, 60),
    Step("kernel_times", 3, "the 1.5 B Llama by kernel", kernel_times, 120, 60),
    Step("profile", 3, "--profile of a GPU rank", profile, 90, 45),
    Step("ablations", 3, "the 1.5 B Llama with one thing changed", ablations, 500, 60),
]
