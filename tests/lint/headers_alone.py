"""Checks that every header of src/ and checkpoints_tool/ compiles alone, those that need libtorch excepted (20 s each).

The include folders are those CMake gave to a source of the same module (--build: a configured build folder).
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess

import include_graph
import tree


def module_flags(build):
    """{module: (compiler, its -I and -isystem flags)} from the build's compile commands."""
    flags = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        source = pathlib.Path(entry["file"])
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


def compile_alone(path, compiler, folders):
    """The first error line, or None."""
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-x", "c++-header", *folders, str(path)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 0:
        return None
    errors = [line for line in result.stderr.splitlines() if "error" in line]
    return f"{path}:1: does not compile alone: {(errors or result.stderr.splitlines() or ['?'])[0]}"


def main():
    options = tree.arguments(__doc__, build="configured build folder")
    files = include_graph.read_includes(options.root)
    carried = include_graph.carried_libraries(files)
    flags = module_flags(pathlib.Path(options.build))
    jobs = []
    for name in files:
        path = options.root / (name if name.startswith("checkpoints_tool/") else "src/" + name)
        if path.suffix != ".h" or "libtorch" in carried[name]:
            continue
        known = next((flags[str(parent)] for parent in path.parents if str(parent) in flags), None)
        compiler, folders = known or ("c++", [])
        jobs.append((path, compiler, [f"-I{options.root / 'src'}", *folders]))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = [fault for fault in pool.map(lambda job: compile_alone(*job), jobs) if fault]
    tree.report(findings, len(jobs))


if __name__ == "__main__":
    main()
