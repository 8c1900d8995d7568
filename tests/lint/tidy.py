"""Runs clang-tidy (the checks of .clang-tidy) over the sources that do not need libtorch: those take a minute a file.

Most of its time goes to the headers of libraries, so it gets several sources at once, in one file that includes
them; those that cannot be together (both have a name of their own that is the same) in files of their own.
Sources without a finding are noted in ~/.cache/echelon-tidy, by the content of all that they include and the packages
that are installed, and not looked at again.

--build: a configured build folder, whose compile commands are used.
"""
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

import include_graph
import tree

AT_ONCE = 12
JOINED = re.compile(r'^#include "(.+)"$', re.M)
NOT_TOGETHER = re.compile(r"error: .*\[clang-diagnostic-error\]")


def entries_of(build):
    """{source: its entry in compile_commands.json}; that of a joined source is its batch's."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        joined = JOINED.findall(path.read_text()) if path.parent.name == "Unity" and path.exists() else [entry["file"]]
        found.update((source, entry) for source in joined)
    return found


def flags_of(entry):
    """How a source is compiled: without the compiler, its precompiled header, the source and what is made of it."""
    words = shlex.split(entry["command"])
    options = next(at for at, word in enumerate(words) if word.startswith("-"))
    flags = words[options:min(words.index(word) for word in ("-o", "-c") if word in words)]
    return tuple(word for before, word in zip(["", *flags], flags) if "-include" not in (before, word))


class Tidy:
    def __init__(self, program, root, flags):
        self.program, self.root, self.flags = program, root, flags

    def errors(self, path, options, flags):
        result = subprocess.run([self.program, "--quiet", *options, str(path), "--", *self.flags,
                                 "-Wno-unknown-warning-option", "-Wthread-safety", *flags], capture_output=True, text=True)
        lines = [line.replace(f"{self.root}/", "") for line in result.stdout.splitlines() if ": error:" in line]
        if result.returncode and not lines:
            lines = [f"{path}:1: clang-tidy failed: {result.stderr.strip()}"]
        return lines

    def findings(self, path):
        return self.errors(path, [f"--config-file={tree.TOP / '.clang-tidy'}"], [])

    def apart(self, path, paths):
        """Those of the joined sources that contradict one before them."""
        lines = self.errors(path, ["--checks=-*,misc-static-assert", "--header-filter=.*"], ["-w", "-ferror-limit=0"])
        return [source for source in paths
                if any(line.startswith(f"{source}:") and NOT_TOGETHER.search(line) for line in lines)]

    def run(self, paths):
        """The findings in these sources and in the project headers they include."""
        if len(paths) == 1:
            return self.findings(self.root / paths[0])
        with tempfile.TemporaryDirectory() as folder:
            joined = pathlib.Path(folder) / "joined.cpp"

            def found_in(paths):
                joined.write_text("".join(f'#include "{self.root / path}"\n' for path in paths))
                return self.findings(joined)

            found = found_in(paths)
            apart = self.apart(joined, paths) if found else []
            together = [path for path in paths if path not in apart]
            if apart and together:
                found = found_in(together)
        if found or not together:  # a name may mean another thing beside the others: only what a source has alone counts
            return [line for path in paths for line in self.run([path])]
        return self.run(apart) if apart else []


class Cache:
    """Which groups of sources were found to be without a fault."""

    def __init__(self, root, files, program):
        self.root, self.files = root, files
        self.folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "echelon-tidy"
        packages = pathlib.Path("/var/lib/dpkg/status")
        self.common = [pathlib.Path(program).read_bytes(), (tree.TOP / ".clang-tidy").read_bytes(),
                       pathlib.Path(__file__).read_bytes(), packages.read_bytes() if packages.exists() else b""]
        self.common = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in self.common)).hexdigest()

    def included(self, name, seen):
        if name in seen:
            return seen
        seen.add(name)
        for _, quoted, target in self.files[name]:
            resolved = include_graph.resolve(target, name, self.files) if quoted else None
            if resolved:
                self.included(resolved, seen)
        return seen

    def place(self, flags, paths):
        names = set()
        for path in paths:
            self.included(path.removeprefix("src/"), names)
        key = hashlib.sha256(repr((self.common, sorted(flags), paths)).replace(str(self.root), "").encode())
        for name in sorted(names):
            path = name if name.startswith("checkpoints_tool/") else "src/" + name
            key.update(hashlib.sha256((self.root / path).read_bytes()).digest())
        return self.folder / key.hexdigest()


def check(tidy, paths, place):
    if place.exists():
        return []
    findings = tidy.run(paths)
    if not findings:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    return findings


def groups_of(sources, entries, root):
    """Sources that are compiled one way, some at a time."""
    alike = collections.defaultdict(list)
    for path in sources:
        alike[flags_of(entries[str(root / path)])].append(path)
    groups = [(flags, paths[at:at + AT_ONCE]) for flags, paths in alike.items()
              for at in range(0, len(paths), AT_ONCE)]
    return sorted(groups, key=lambda group: -len(group[1]))


def main():
    options = tree.arguments(__doc__, build="configured build folder")
    program = shutil.which("clang-tidy-14")
    if not program:
        tree.skip("no clang-tidy-14 in this distribution; later versions find other things")
    entries = entries_of(pathlib.Path(options.build))
    files = include_graph.read_includes(options.root)
    carried = include_graph.carried_libraries(files)
    sources = []
    for name in files:
        path = name if name.startswith("checkpoints_tool/") else "src/" + name
        if path.endswith(".cpp") and str(options.root / path) in entries and "libtorch" not in carried[name]:
            sources.append(path)
    cache = Cache(options.root, files, program)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda group: check(Tidy(program, options.root, group[0]), group[1], cache.place(*group)),
                           groups_of(sources, entries, options.root))
        findings = sorted({line for lines in results for line in lines})
    tree.report(findings, len(sources))


if __name__ == "__main__":
    main()
