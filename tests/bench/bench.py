"""Measures Echelon beside its peers and keeps the results in one form (form.py), which docs/benchmarks.md is made from.

usage: ./make.sh bench [NAME]...      the named benchmarks (default: all), one after the other; into build/bench/NAME.json
       ./make.sh bench list           names them
       ./make.sh bench --quick        the most important ones first, with few rounds: some 25 minutes on two cores
       ./make.sh bench --page         makes docs/benchmarks.md and all that shows figures from docs/bench/*.json
       ./make.sh bench --publish [NAME]...
                                      copies build/bench/NAME.json (default: all that are there) to docs/bench, makes the page
       ./make.sh bench --setup-deepspeed
                                      installs DeepSpeed into .venv-deepspeed, for --deepspeed .venv-deepspeed/bin/python

An interrupted benchmark leaves the rounds that it finished. Leave the machine alone meanwhile: what other programs took of
its cores is kept with each round, and shown.
"""
import argparse
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "cases")]

import form
import page
import recorder

# Their packages differ: only what is run is imported.
MODULES = {"training": ("train_llama", "train_llama_variants", "train_t5", "train_gpt2", "train_mnist", "scaling", "quickstart_loss"),
           "starting": ("launch", "start"), "checkpoints": ("checkpoint", "memory_saves", "consolidate"),
           "reading": ("prepare", "loader"), "engine": ("unit_cost", "logging", "comm", "policies", "builds")}
NAMES = [name for names in MODULES.values() for name in names]
# Those of --quick, in this order: what is cut off at any time leaves the most important ones.
QUICK = ("train_llama", "checkpoint", "launch", "start", "train_mnist", "comm", "prepare", "train_t5", "loader", "consolidate",
         "unit_cost", "train_gpt2", "scaling")
OUTPUT = recorder.ROOT / "build/bench"


def described(name):
    """The first line of a benchmark's function, read from the source: its packages may not be installed here."""
    module = next(module for module, names in MODULES.items() if name in names)
    text = (HERE / "cases" / f"{module}.py").read_text()
    return text.partition(f"def {name}(bench):\n")[2].split('"""')[1]


def function(name):
    module = next(module for module, names in MODULES.items() if name in names)
    return getattr(importlib.import_module(module), name)


def run(name, options):
    """Whether it measured; else why not is printed."""
    print(f"{name}: {described(name)}", flush=True)
    bench, began = recorder.Bench(name, described(name), options), time.monotonic()
    try:
        function(name)(bench)
    except recorder.LeftOut as why:
        print(f"  left out: {why}", flush=True)
        return True
    except (recorder.Failed, ImportError) as failure:
        print(f"  failed: {failure}", file=sys.stderr, flush=True)
        return False
    bench.write(complete=True)
    for line in page.in_short(form.read(bench.path)):
        print(f"  {line}")
    print(f"  {time.monotonic() - began:.0f} s, {os.path.relpath(bench.path)}", flush=True)
    return True


def versions_of(package, python):
    """{package: version} of a peer that has a Python of its own; empty without one."""
    if not python:
        return {}
    script = f"import importlib.metadata as m; print(m.version('{package}'))"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{python} has no {package}: {done.stderr.strip().splitlines()[-1]}")
    return {f"{package} (Python)": done.stdout.strip()}


def checked(parser):
    options = parser.parse_args()
    for name in options.names:
        if name not in NAMES:
            parser.error(f"no benchmark '{name}'; expected some of: {', '.join(NAMES)}")
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds needs a number from 1 on")
    if options.cases and len(options.names) != 1:
        parser.error("--case belongs to one NAME")
    for program in filter(None, (options.echelon, options.beside)):
        if not options.page and not options.publish and not program.exists():
            parser.error(f"{program} is missing: ./make.sh build makes it")
    options.mode = "smoke" if options.smoke else "quick" if options.quick else "full"
    options.more_versions = versions_of("deepspeed", options.deepspeed) | versions_of("datasets", options.datasets)
    return options


def main():
    if sys.argv[1:] == ["list"]:
        print(*(f"{name:24}{described(name)}" for name in NAMES), sep="\n")
        return
    parser = argparse.ArgumentParser(prog="./make.sh bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="one round of one case: shows that it works, measures nothing")
    parser.add_argument("--rounds", type=int, metavar="N", help="of each case, instead of its own number")
    parser.add_argument("--case", action="append", dest="cases", metavar="CASE", help="of the one NAME; repeatable")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--deepspeed", metavar="PYTHON", help="a Python with DeepSpeed, which takes part in train_llama")
    parser.add_argument("--datasets", metavar="PYTHON", help="a Python with datasets and transformers, for the benchmark prepare")
    parser.add_argument("--beside", type=pathlib.Path, metavar="ECHELON", help="another build of it, for the benchmark builds")
    parser.add_argument("--echelon", type=pathlib.Path, default=recorder.ROOT / "build/release/bin/echelon")
    parser.add_argument("--output", type=pathlib.Path, default=OUTPUT, help="folder of the results (build/bench)")
    options = checked(parser)
    if options.publish:
        return page.publish(recorder.ROOT, options.output, options.names, NAMES)
    if options.page:
        return page.make(recorder.ROOT, NAMES)
    options.echelon, options.output = options.echelon.resolve(), options.output.resolve()
    options.beside = options.beside and options.beside.resolve()
    options.output.mkdir(parents=True, exist_ok=True)
    names = options.names or (QUICK if options.quick else NAMES)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended by SIGTERM"))  # as any error: what was started is ended too
    try:
        failed = [name for name in names if not run(name, options)]
    except KeyboardInterrupt:
        sys.exit("bench: interrupted; what was measured stands")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
