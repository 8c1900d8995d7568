"""Runs clang-tidy (the checks of .clang-tidy) over the sources that do not need libtorch: those take a minute a file.

--build: a configured build folder, whose compile commands are used.
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess

import include_graph
import tree


def tidy(program, root, build, path):
    """The findings in one source and in the project headers it includes."""
    command = [program, "--quiet", f"--config-file={tree.TOP / '.clang-tidy'}", "-p", str(build), str(root / path)]
    result = subprocess.run(command, capture_output=True, text=True)
    lines = [line.replace(f"{root}/", "") for line in result.stdout.splitlines() if ": error:" in line]
    if result.returncode and not lines:
        lines = [f"{path}:1: clang-tidy failed: {result.stderr.strip()}"]
    return lines


def main():
    options = tree.arguments(__doc__, build="configured build folder")
    program = shutil.which("clang-tidy-14")
    if not program:
        tree.skip("no clang-tidy-14 in this distribution; later versions find other things")
    build = pathlib.Path(options.build)
    compiled = {entry["file"] for entry in json.loads((build / "compile_commands.json").read_text())}
    files = include_graph.read_includes(options.root)
    carried = include_graph.carried_libraries(files)
    sources = []
    for name in files:
        path = name if name.startswith("checkpoints_tool/") else "src/" + name
        if path.endswith(".cpp") and str(options.root / path) in compiled and "libtorch" not in carried[name]:
            sources.append(path)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda path: tidy(program, options.root, build, path), sources)
        findings = sorted({line for lines in results for line in lines})
    tree.report(findings, len(sources))


if __name__ == "__main__":
    main()
