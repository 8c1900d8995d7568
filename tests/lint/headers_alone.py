"""Checks that every header of src/ and checkpoints_tool/ compiles alone, those that need libtorch excepted (20 s each).

A header with a source of its own is proven by the build when that source includes it first, so only this is looked at.
The others are compiled, with the include folders CMake gave to a source of the same module (--build: a configured build
folder). Headers of GPU code find CUDA's in the wheel beside libtorch where the machine has no toolkit, and that of NCCL
in the stand-in that the tests have for it.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

import include_graph
import tree


OPTIONS = ["-std=c++20", "-Wall", "-Wextra"]
FIRST_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


def compile_commands(build):
    """(source, words of its command), for everything the build compiles."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        yield pathlib.Path(entry["file"]), shlex.split(entry["command"])


def proven_sources(commands):
    """Sources compiled without a precompiled header, which would hide what their first header lacks."""
    return {source for source, words in commands if not any("cmake_pch" in word for word in words)}


def first_include(source):
    match = FIRST_INCLUDE.search(source.read_text(errors="replace"))
    return match[1] if match else ""


def module_flags(commands):
    """{module: (compiler, its -I and -isystem flags)} from the build's compile commands."""
    flags = {}
    for source, words in commands:
        if source.suffix == ".c":
            continue
        # Headers of GPU code are plain C++ for their callers.
        compiler = "c++" if source.suffix == ".cu" else next(
            word for word in words if re.search(r"(\+\+|clang)[^/]*$", word))
        folders = []
        for index, word in enumerate(words):
            if word.startswith("-I"):
                folders.append(word)
            elif word == "-isystem":
                folders += [word, words[index + 1]]
            elif word.startswith("-isystem="):  # nvcc's spelling
                folders += ["-isystem", word.removeprefix("-isystem=")]
        for parent in source.parents:
            flags.setdefault(str(parent), (compiler, folders))
    return flags


def precompiled(folder, compiler, names):
    """Options that give every header the standard library's of `names`, which would be most of the time to compile it.
    Whether it includes those itself is what std_headers.py looks at."""
    header = pathlib.Path(folder) / f"{pathlib.Path(compiler).name}.h"
    header.write_text("".join(f"#include <{name}>\n" for name in names))
    made = subprocess.run([compiler, *OPTIONS, "-x", "c++-header", str(header), "-o", f"{header}.gch"], capture_output=True)
    return ["-include", str(header)] if made.returncode == 0 else []


def compile_alone(path, compiler, folders):
    """The first error line, or None."""
    command = [compiler, *OPTIONS, "-fsyntax-only", "-x", "c++-header", *folders, str(path)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 0:
        return None
    errors = [line for line in result.stderr.splitlines() if "error" in line]
    return f"{path}:1: does not compile alone: {(errors or result.stderr.splitlines() or ['?'])[0]}"


def main():
    options = tree.arguments(__doc__, build="configured build folder")
    files = include_graph.read_includes(options.root)
    carried = include_graph.carried_libraries(files)
    commands = list(compile_commands(pathlib.Path(options.build)))
    flags, proven = module_flags(commands), proven_sources(commands)
    cuda = [f"-isystem{folder}" for folder in options.root.glob(".venv/lib/python3*/site-packages/nvidia/cu13/include")]
    cuda.append(f"-isystem{options.root / 'tests/gpu/stand_in/include'}")  # nccl.h, where there is no other
    findings, jobs, checked = [], [], 0
    for name in files:
        path = options.root / (name if name.startswith("checkpoints_tool/") else "src/" + name)
        if path.suffix != ".h" or "libtorch" in carried[name]:
            continue
        checked += 1
        source = path.with_suffix(".cpp")
        if source in proven:
            if pathlib.PurePath(first_include(source)).name != path.name:
                findings.append(f"{source}:1: does not include its own header first, which proves that it compiles alone")
            continue
        known = next((flags[str(parent)] for parent in path.parents if str(parent) in flags), None)
        compiler, folders = known or ("c++", [])
        jobs.append((path, compiler, [f"-I{options.root / 'src'}", *folders, *cuda]))
    names = sorted({name for included in files.values() for _, quoted, name in included if not quoted and re.fullmatch(r"[a-z_]+", name)})
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        shared = {compiler: precompiled(folder, compiler, names) for compiler in {compiler for _, compiler, _ in jobs}}
        findings += [fault for fault in pool.map(lambda job: compile_alone(job[0], job[1], shared[job[1]] + job[2]), jobs) if fault]
    tree.report(findings, checked)


if __name__ == "__main__":
    main()
