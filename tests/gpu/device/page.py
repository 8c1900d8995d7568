"""Writes what was measured on devices into docs/gpu.md, from the results.json files under docs/gpu_results.

    page.py            rewrites the part of docs/gpu.md between the two marks
    page.py --check    exit code 1 where that part is not what the files say
    page.py --print FILE   the part for one file, to standard output
"""
import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/gpu.md"
BEGIN, END = "<!-- measured: made by tests/gpu/device/page.py, do not edit -->", "<!-- /measured -->"
NOTHING = "Nothing has been measured on a GPU yet, and no run has used one: **speed and memory on a device are not measured**.\n"


def number(value):
    """Three significant digits, thousands apart."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in row) + " |" for row in rows]) + "\n"


def speed_row(name, facts, base):
    """tokens/s, MFU and memory of one run; `base`: tokens/s of the run it is compared with."""
    if "failed" in facts:
        return [name, "failed: " + facts["failed"], "", "", ""]
    mfu = facts.get("mfu")
    if facts.get("rows") != facts.get("rows_wanted"):
        name += f", {facts['rows']} sequences a step (more need too much memory)"
    return [name, number(facts["tokens_per_s"]), f"{mfu:.1%}" if mfu else "", f"{facts['peak_device_bytes'] / 2**30:.1f}",
            f"{facts['tokens_per_s'] / base:.2f}" if base else ""]


def compared(passed, own, peers, changed=()):
    """A table of Echelon's run, those of its `peers` {step: name} and those of Echelon with one thing `changed`."""
    base = passed[own]["tokens_per_s"]
    rows = [speed_row(name, passed[step], base) for step, name in {own: "Echelon", **peers}.items() if step in passed]
    rows += [speed_row("Echelon, " + name, facts, base) for name, facts in dict(changed).items()]
    return table(["", "tokens/s", "MFU", "GiB reserved", "speed / Echelon's"], rows)


def speeds(passed):
    """The 1.5 B Llama: Echelon, FSDP2, and Echelon with one thing changed."""
    if "throughput" not in passed:
        return []
    return ["The 1.5 B Llama of `tests/gpu/device/llama_1_5b.yaml`, 8 sequences of 4,096 tokens a step, one device. Of "
            "Echelon and FSDP2 the median of three rounds, of what follows one:\n",
            compared(passed, "throughput", {"fsdp2": "FSDP2", "fsdp2_compiled": "FSDP2, compiled"}, passed.get("ablations", {}))]


def shown(value, form):
    return "failed: " + value["failed"] if isinstance(value, dict) else form.format(value)


LOSSES = {"same_losses_as_cpu": "of {} runs of each model in fp32 and bf16", "features": "of {} runs with one option each",
          "strategies": "of {} ways to shard and recompute, fp32", "shared_gpu": "of {} runs of 2 and 4 ranks that share the device, fp32"}


def losses(passed):
    rows = []
    for step, what in LOSSES.items():
        for kind, runs in by_type(passed.get(step, {})).items():
            worst = max(runs, key=lambda run: runs[run] if isinstance(runs[run], float) else float("inf"))
            rows.append([what.format(len(runs)) if kind is None else f"of {len(runs)} models, {kind}", worst, shown(runs[worst], "{:.1e}")])
    return ["Largest relative difference of the losses of ten steps from those of one CPU rank:\n",
            table(["largest", "run", "difference"], rows)] if rows else []


def by_type(runs):
    """{type: {model: value}} where runs are named "model type", else {None: runs}."""
    split = {}
    for name, value in runs.items():
        model, _, kind = name.rpartition(" ")
        typed = kind in ("fp32", "bf16_fp32_reduce")
        split.setdefault(kind if typed else None, {})[model if typed else name] = value
    return split


def repeated(passed):
    runs = passed.get("deterministic", {})
    if not runs:
        return []
    others = [run.replace(", ", " with `train.deterministic: ") + "`" for run, equal in runs.items() if equal is not True]
    return [f"Two runs of ten steps were equal in every bit {len(runs) - len(others)} of {len(runs)} times"
            + (f"; not of {', '.join(others)}" if others else "") + ".\n"]


def limits(passed):
    rows = [[kind.replace("_", " "), name, number(value)] for kind, values in passed.get("ceilings", {}).items()
            for name, value in values.items()]
    return ["What the device did at most, by PyTorch:\n", table(["", "", "rate"], rows)] if rows else []


def fine_tuning(passed):
    if "lora" not in passed:
        return []
    return ["Adapters of rank 16 on a frozen Llama of 8 B (`tests/gpu/device/llama_8b_lora.yaml`), 4 sequences of 4,096 tokens a "
            "step, every block recomputed, one device:\n", compared(passed, "lora", {"peft": "peft on transformers"})]


# What kernels do, by their names.
KERNELS = (("matrix products", re.compile("nvjet|gemm|cutlass|xmma")), ("attention", re.compile("cudnn|fmha|flash|pytorch_flash")),
           ("additions of PyTorch", re.compile("CUDAFunctor_add")))
OWN = re.compile(r"_\d+_(\w+?)_cu_[0-9a-f]{8}\d+(\w+?)_kernel")


def does(name):
    for what, pattern in KERNELS:
        if pattern.search(name):
            return what
    own = OWN.search(name) if "echelon" in name else None
    return f"`{own[1]}`, {own[2]}" if own else "others"


def kernels(passed):
    facts = passed.get("kernel_times")
    if not facts:
        return []
    sums = {}
    for row in facts["kernels"]:
        of = sums.setdefault(does(row["name"]), [0, 0])
        of[0] += row["times"]
        of[1] += row["ms"]
    rows = [[what, number(times), number(ms)] for what, (times, ms) in sorted(sums.items(), key=lambda item: -item[1][1]) if ms >= 1]
    return [f"A step of the 1.5 B Llama by kernel, of 1 ms or more. The device is busy for {facts['busy_ms']:.0f} of "
            f"{facts['step_time_s'] * 1e3:.0f} ms:\n", table(["kernels", "launches", "ms"], rows)]


def states(steps):
    passed = [entry["what"] for entry in steps.values() if entry["state"] == "passed"]
    others = [f"- {entry['what']}: {entry['state']}: {entry.get('why', '')}" for entry in steps.values() if entry["state"] != "passed"]
    counted = sum((entry.get("facts") or {}).get("tests", 0) for entry in steps.values())
    said = f"{len(passed)} of {len(steps)} steps passed, with {counted} tests: {'; '.join(passed)}."
    killed = (steps.get("killed_and_resumed", {}).get("facts") or {})
    if killed.get("bitwise_equal"):
        said += " After SIGKILL the losses are equal in every bit."
    return "\n".join([said, *others, ""])


def section(results):
    """The part of the page for one results.json."""
    steps = results["steps"]
    passed = {name: entry["facts"] for name, entry in steps.items() if entry.get("facts")}
    facts = passed.get("facts", {})
    of = results["of"]
    began = steps["facts"]["began"] if "facts" in steps else ""
    head = (f"### {of['gpu'] or 'no device'}\n\nMeasured {began}: torch {facts.get('torch')}, cuDNN {facts.get('cudnn')}, NCCL "
            f"{'.'.join(map(str, facts.get('nccl') or []))}, {facts.get('cores')} cores of {facts.get('processor')}, commit {of['bundle'].get('commit')}.\n")
    return "\n".join([head, states(steps), *speeds(passed), *fine_tuning(passed), *kernels(passed), *losses(passed), *repeated(passed), *limits(passed)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--print", type=pathlib.Path, metavar="FILE")
    args = parser.parse_args()
    if args.print:
        print(section(json.loads(args.print.read_text())))
        return
    files = sorted((ROOT / "docs/gpu_results").glob("*.json"))
    part = "\n".join(section(json.loads(file.read_text())) for file in files) if files else NOTHING
    page = PAGE.read_text()
    before, rest = page.split(BEGIN + "\n")
    wanted = f"{before}{BEGIN}\n{part}{END}{rest.split(END)[1]}"
    if args.check:
        sys.exit(0 if page == wanted else f"{PAGE} does not say what docs/gpu_results holds: run tests/gpu/device/page.py")
    PAGE.write_text(wanted)


if __name__ == "__main__":
    main()
