"""Checks that what is used of these headers of the standard library is included: by the file, or by headers of the
project that it includes. Other headers of the standard library bring them along in one compiler version and not in the
next. Files that see libtorch's headers, which bring everything, are left out."""
import pathlib
import re

import include_graph
import tree

USED = {
    "algorithm": "adjacent_find|all_of|any_of|binary_search|clamp|copy|copy_if|copy_n|count|count_if|equal|equal_range|"
                 "fill|fill_n|find|find_if|find_if_not|for_each|generate|includes|is_sorted|lower_bound|max|max_element|"
                 "min|min_element|minmax_element|mismatch|none_of|nth_element|partial_sort|partition|remove|remove_if|"
                 "replace|reverse|rotate|search|set_difference|shuffle|sort|stable_partition|stable_sort|transform|"
                 "unique|upper_bound",
    "numeric": "accumulate|gcd|inner_product|iota|lcm|midpoint|partial_sum|reduce",
    "cstring": "memchr|memcmp|memcpy|memmove|memset|strchr|strcmp|strerror|strlen|strncmp",
    "iomanip": "put_time|quoted|setfill|setprecision|setw",
}
CALLS = {header: re.compile(rf"\bstd::(?:ranges::)?({names})\s*[(<]") for header, names in USED.items()}
LIBTORCH = ("ATen/", "c10/", "torch/")
ROOTS = ("src", "tests", "checkpoints_tool")


class Includes:
    """The foreign headers that a file sees by itself and through headers of the project."""

    def __init__(self, root):
        self.root = root
        self.seen_by = {}

    def of(self, path):
        if path not in self.seen_by:
            self.seen_by[path] = set()  # for circles
            found = set()
            lines = (self.root / path).read_text(errors="replace").splitlines()
            for match in filter(None, map(include_graph.INCLUDE.match, lines)):
                own = self.resolve(path, match[2]) if match[1] == '"' else None
                found |= self.of(own) if own else {match[2]}
            self.seen_by[path] = found
        return self.seen_by[path]

    def resolve(self, including, name):
        folders = [including.parent, *map(pathlib.Path, ROOTS)]
        return next((folder / name for folder in folders if (self.root / folder / name).is_file()), None)


def main():
    options = tree.arguments(__doc__)
    includes, findings, checked = Includes(options.root), [], 0
    for path in tree.code_files(options.root, *ROOTS):
        seen = includes.of(path)
        if path.suffix not in (".h", ".cpp") or any(name.startswith(LIBTORCH) for name in seen):
            continue
        checked += 1
        lines = (options.root / path).read_text(errors="replace").splitlines()
        for header, calls in CALLS.items():
            if header in seen:
                continue
            uses = ((number, calls.search(line.split("//")[0])) for number, line in enumerate(lines, 1))
            first = next(((number, use) for number, use in uses if use), None)
            if first:
                findings.append(f"{path}:{first[0]}: uses std::{first[1][1]} and does not include <{header}>")
    tree.report(findings, checked)


if __name__ == "__main__":
    main()
