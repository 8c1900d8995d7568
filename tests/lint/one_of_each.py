"""Checks that what is built once is not built again: each of these calls stands in the files that make it for all others.

Files are opened, written and named through fs::Disk, so that a test can fail any of it; programs are started by
run_program(); JSON is read by read_foreign_json(), which limits its size and depth.

A constant of a source has another name than the constants of its module's headers: sources of a module are compiled as
one, in groups that change with each new file, and the nearer constant would hide the header's from the others in its group.
"""
import collections
import re

import tree

# What: (the call, what to use, who makes it)
CALLS = {
    "JSON": (r"\b[jJ]son::(?:parse|sax_parse|accept)\(", "read_foreign_json() of base/foreign_json.h",
             {"src/base/foreign_json.cpp", "src/base/foreign_numbers.cpp",
              "src/checkpoint/format/safetensors_header.cpp"}),  # 100 MB of which hardly anything is kept
    "process": (r"(?<![\w.>])(?:posix_spawnp?|v?fork|popen|execvp?e?)\(|\bstd::system\(", "run_program() of base/process/program.h",
                {"src/base/process/program.cpp",
                 "src/app/launcher/launch.cpp"}),  # attends to mpirun while it runs
    "file": (r"(?<![\w>])::(?:open|creat|pread|pwrite|fsync|fdatasync|fallocate|ftruncate|rename|renameat2|link|unlink|mkdir|"
             r"rmdir)\(|\bstd::(?:ofstream|rename|remove)\b(?!_)|\bfopen\(|"
             r"\b(?:std::filesystem|stdfs)::(?:remove|rename|create_|resize_file|copy)\w*\(",
             "the Disk of base/files/disk.h, or what base/files builds on it",
             {"src/base/files/disk.cpp",
              "src/app/launcher/output_relay.cpp"}),  # opens another process's pipe
}

# At the beginning of a line: not within a function or a class.
CONSTANT = re.compile(r"^(?:inline |static )*(?:constexpr|const)\b[^=({;]*?\b(k[A-Z]\w*)(?:\[[^\]]*\])?\s*[={(]")


def module_of(path):
    """The sources that may be compiled as one: src/data, tests/unit/data, checkpoints_tool."""
    return path.parts[:{"src": 2, "tests": 3}.get(path.parts[0], 1)]


def hidden_constants(root):
    in_headers = collections.defaultdict(dict)
    in_sources = []
    for path in tree.code_files(root, "src", "checkpoints_tool", "tests"):
        for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
            name = CONSTANT.match(line)
            if name and path.suffix == ".h":
                in_headers[module_of(path)][name[1]] = path
            elif name and path.suffix == ".cpp":
                in_sources.append((path, number, name[1]))
    return [f"{path}:{number}: name: '{name}' hides that of {in_headers[module_of(path)][name]} from sources compiled with this one"
            for path, number, name in in_sources if name in in_headers[module_of(path)]]


def main():
    options = tree.arguments(__doc__)
    files = tree.code_files(options.root, "src", "checkpoints_tool")
    findings = hidden_constants(options.root)
    for path in files:
        for number, line in enumerate((options.root / path).read_text(errors="replace").splitlines(), 1):
            code = line.partition("//")[0]
            for what, (call, instead, makers) in CALLS.items():
                match = re.search(call, code)
                if match and path.as_posix() not in makers:
                    findings.append(f"{path}:{number}: {what}: '{match[0]}' is made in one place for all: use {instead}")
    tree.report(findings, len(files))


if __name__ == "__main__":
    main()
