"""Checks the #include lines of src/ and checkpoints_tool/ against the layers of docs/architecture.md.

Faults: a module or a room that includes one it may not see, a foreign library outside the module that owns it, a header that
carries a foreign library's types into another module, a cycle of headers, a project header that does not exist.
"""
import re

import tree

SEES = {
    "base": set(),
    "shapes": {"base"},
    "bootstrap": {"base"},
    "checkpoint": {"base"},
    "families": {"base", "shapes", "checkpoint"},
    "model": {"base", "shapes"},
    "text": {"base"},
    "image": {"base"},
    "metrics": {"base"},
    "data": {"base", "shapes", "text", "image"},
    "data/parquet": {"base", "data"},  # the plugin
    "comm": {"base", "bootstrap"},
    "profile": {"base", "bootstrap", "comm"},
    "forecast": {"base", "comm"},
    "book": {"base", "bootstrap", "comm", "forecast", "model"},
    "liveness": {"base", "bootstrap", "comm"},
    "shard": {"base", "bootstrap", "comm", "model"},
    "optim": {"base", "comm", "model", "shard"},
    "run": {"base", "bootstrap", "comm", "text", "metrics"},
    "train": {"base", "shapes", "families", "bootstrap", "comm", "model", "shard", "optim", "run", "text", "data",
              "checkpoint", "profile"},
    "recipe": {"base", "shapes", "families"},
    "reference": {"base", "shapes", "data"},  # compared with the product, so it sees nothing that computes
    "report": {"base", "checkpoint", "run", "recipe"},
    "app": {"base", "shapes", "families", "bootstrap", "checkpoint", "text", "data", "comm", "forecast", "metrics", "recipe", "report", "app/supervise"},
    "app/supervise": {"base", "checkpoint", "run", "liveness"},
    "app/engine": {"base", "shapes", "families", "bootstrap", "checkpoint", "model", "text", "data", "comm", "forecast", "book", "liveness",
                   "shard", "optim", "run", "metrics", "profile", "train", "reference", "recipe", "app"},
    "app/cuda": {"base", "bootstrap", "comm", "model", "shard", "train", "app/engine"},
    "checkpoints_tool": {"base", "shapes", "checkpoint", "families"},
}
# The same for the rooms, the folders of a module, where these have an order. Files beside the rooms are below them all.
ROOMS = {
    "checkpoint": {
        "format": set(),
        "hdf5": {"format"},
        "folder": {"format"},
        "write": {"format", "hdf5", "folder"},
        "read": {"format", "hdf5", "folder"},
        "memory": {"format", "folder", "write", "read"},
    },
}
# Of a module that may not be seen as a whole, these headers may be.
BORDERS = {
    "app": {"app/engine/engine.h"},  # what the plugin libechelon_engine.so offers
}
# Foreign libraries and the modules that may see them, be it through a header of another module.
OWNERS = {
    "HDF5": (r"hdf5\.h|H5\w+\.h", {"checkpoint"}),
    "PMIx": (r"pmix\w*\.h", {"bootstrap"}),
    "MPI": (r"mpi\.h", {"comm"}),
    "yaml-cpp": (r"yaml-cpp/.*", {"recipe"}),
    "sentencepiece": (r"sentencepiece\w*\.h", {"text"}),
    "PCRE2": (r"pcre2\.h", {"text"}),
    "ICU": (r"unicode/.*", {"text"}),
    "zlib": (r"zlib\.h", {"data", "metrics"}),
    "Arrow": (r"(arrow|parquet)/.*", {"data/parquet"}),
    "libjpeg": (r"j(peglib|error)\.h", {"image"}),
    "libpng": (r"png\.h", {"image"}),
    "spdlog": (r"spdlog/.*", {"base"}),
    "libtorch": (r"(torch|ATen|c10)/.*", {"model", "book", "shard", "optim", "train", "reference", "app/engine", "app/cuda"}),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def module_of(path):
    """`path`: relative to src/, or to the project for checkpoints_tool."""
    parts = path.split("/")
    below = "/".join(parts[:2])
    return below if below in SEES else parts[0]


def read_includes(root):
    """{file: [(line number, is quoted, included name)]}; files under src/ are named as they are included."""
    found = {}
    for path in tree.code_files(root, "src", "checkpoints_tool"):
        name = path.as_posix().removeprefix("src/")
        lines = (root / path).read_text(errors="replace").splitlines()
        matches = ((number, INCLUDE.match(line)) for number, line in enumerate(lines, 1))
        found[name] = [(number, match[1] == '"', match[2]) for number, match in matches if match]
    return found


def resolve(name, including, files):
    """The project file an include names, or None for a foreign one."""
    beside = including.rpartition("/")[0] + "/" + name
    return next((candidate for candidate in (name, beside, "checkpoints_tool/" + name) if candidate in files), None)


def foreign_library(name):
    return next((library for library, (pattern, _) in OWNERS.items() if re.fullmatch(pattern, name)), None)


def carried_libraries(files):
    """{header: {library: chain of headers that leads to it}} over all owned foreign libraries."""
    carried = {}

    def visit(name, trail):
        if name in carried:
            return carried[name]
        carried[name] = {}
        for _, _, included in files[name]:
            library = foreign_library(included)
            if library:
                carried[name].setdefault(library, [included])
            target = resolve(included, name, files)
            if target and target not in trail:
                for inner, chain in visit(target, trail + [target]).items():
                    carried[name].setdefault(inner, [target] + chain)
        return carried[name]

    for name in files:
        visit(name, [name])
    return carried


def cycles(files):
    """Each cycle of includes once, as the list of its files."""
    state, found = {}, []

    def visit(name, trail):
        state[name] = "open"
        for _, _, included in files[name]:
            target = resolve(included, name, files)
            if target and state.get(target) == "open":
                found.append(trail[trail.index(target):] + [target])
            elif target and target not in state:
                visit(target, trail + [target])
        state[name] = "done"

    for name in files:
        if name not in state:
            visit(name, [name])
    return found


def may_see(module, target):
    other = module_of(target)
    options_only = module in ("recipe", "app", "reference") and target.endswith("/options.h")
    return other == module or other in SEES[module] or options_only or target in BORDERS.get(module, ())


def room_of(path):
    """The folder of its module that a file is in; "": none."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else ""


def room_fault(module, name, target):
    """What is wrong with an include within `module`, or None."""
    rooms, room, other = ROOMS[module], room_of(name), room_of(target)
    for missing in {room, other} - rooms.keys() - {""}:
        return f"room '{missing}' of {module} has no place in the table ROOMS of include_graph.py"
    sees = rooms.get(room, set())
    if other not in sees | {room, ""}:
        return f"{module}/{room} may not include {target}: of {module} it sees {', '.join(sorted(sees)) or 'nothing else'}"
    return None


def check_include(name, quoted, included, files, carried):
    """What is wrong with one include line, or None."""
    module = module_of(name)
    if module not in SEES:
        return f"folder '{module}' has no place in the layer table of include_graph.py"
    target = resolve(included, name, files)
    if target:
        if not may_see(module, target):
            return f"{module} may not include {target}: it sees {', '.join(sorted(SEES[module])) or 'nothing'}"
        if module in ROOMS and module_of(target) == module:
            return room_fault(module, name, target)
        for library, chain in carried[target].items():
            if module_of(target) != module and module not in OWNERS[library][1]:
                return f"{target} carries {library} into {module} (through {' -> '.join(chain)})"
        return None
    library = foreign_library(included)
    if library and module not in OWNERS[library][1]:
        return f"{library} belongs to {', '.join(sorted(OWNERS[library][1]))}: {module} may not include {included}"
    if quoted and included.split("/")[0] in SEES:
        return f"no such header: {included}"
    return None


def main():
    options = tree.arguments(__doc__)
    files = read_includes(options.root)
    carried = carried_libraries(files)
    findings = ["include cycle: " + " -> ".join(cycle) for cycle in cycles(files)]
    for name, includes in files.items():
        where = name if name.startswith("checkpoints_tool/") else "src/" + name
        for number, quoted, included in includes:
            fault = check_include(name, quoted, included, files, carried)
            if fault:
                findings.append(f"{where}:{number}: {fault}")
    tree.report(findings, len(files))


if __name__ == "__main__":
    main()
