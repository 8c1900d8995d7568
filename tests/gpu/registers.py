"""What ptxas says of every kernel, held to registers.txt: registers and shared memory a thread and block, and no spills.

A kernel that comes to need more than is written there fails, and so does one that is not there. `--record` writes the
file anew. --build: a configured build folder with CUDA. Compiles the kernels once for each architecture of that build.
Exits with 77, skipped, where nvcc is of another release than the one that made the file: each has its own register
allocation.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

LIMITS = pathlib.Path(__file__).with_name("registers.txt")
HEADER = """# Limits of the kernels, from ptxas (tests/gpu/registers.py --record): architecture, registers a thread, bytes of static
# shared memory a block, kernel. None spills. Made with nvcc RELEASE.
"""
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
KERNEL = re.compile(r"(\w+(<[^()]*>)?)[(]")
SCOPE = re.compile(r"[(]anonymous namespace[)]::|\b\w+::")
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def commands(build):
    """{source: words of its nvcc command, without its output}"""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if entry["file"].endswith(".cu") and words[0].endswith("nvcc"):
            found[entry["file"]] = words[:words.index("-o")]
    return found


def readable(source, mangled):
    """'rms_norm: forward_kernel<8, float>', without parameters and scopes."""
    name = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True).stdout.strip()
    kernel = KERNEL.search(SCOPE.sub("", name))[1]
    return f"{pathlib.Path(source).stem}: {kernel}"


def measure(source, words):
    """{(architecture, kernel): (registers, shared bytes, spilled bytes)} of one source."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([*words, "-Xptxas", "-v", "-o", f"{folder}/object"], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{shlex.join(words)}\n{run.stderr}")
    found = {}
    entry, spilled = None, 0
    for line in run.stderr.splitlines():
        if match := ENTRY.search(line):
            entry = (match[2], readable(source, match[1]))
        elif match := SPILL.search(line):
            spilled = int(match[1]) + int(match[2])
        elif (match := USED.search(line)) and entry:
            found[entry] = (int(match[1]), int(match[2] or 0), spilled)
            entry = None
    return found


def release_of(nvcc):
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release ([\d.]+)", version)[1]


def read_limits():
    lines = [line.split(maxsplit=3) for line in LIMITS.read_text().splitlines() if not line.startswith("#")]
    return {(architecture, kernel): (int(registers), int(shared)) for architecture, registers, shared, kernel in lines}


def faults(found, limits):
    for key, (registers, shared, spilled) in sorted(found.items()):
        name = f"{key[1]} ({key[0]})"
        if spilled:
            yield f"{name}: spills {spilled} bytes"
        if key not in limits:
            yield f"{name}: is not in {LIMITS.name}"
        elif registers > limits[key][0] or shared > limits[key][1]:
            yield f"{name}: {registers} registers and {shared} bytes, at most {limits[key][0]} and {limits[key][1]} so far"
    for architecture, kernel in sorted(limits.keys() - found.keys()):
        yield f"{kernel} ({architecture}): is in {LIMITS.name} and not in the build"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    sources = commands(arguments.build)
    if not sources:
        sys.exit(f"{arguments.build} compiles no kernel with nvcc")
    release = release_of(next(iter(sources.values()))[0])
    if not arguments.record and f"Made with nvcc {release}.\n" not in LIMITS.read_text():
        print(f"SKIPPED: nvcc is {release}, the limits were made with another one")
        sys.exit(77)
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        parts = list(workers.map(lambda item: measure(*item), sources.items()))
    found = {key: value for part in parts for key, value in part.items()}
    if arguments.record:
        lines = [f"{key[0]} {value[0]:3} {value[1]:5} {key[1]}\n" for key, value in sorted(found.items())]
        LIMITS.write_text(HEADER.replace("RELEASE", release) + "".join(lines))
    wrong = list(faults(found, read_limits()))
    print(f"{len(found)} kernels, {max(value[0] for value in found.values())} registers at most, {len(wrong)} faults")
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
