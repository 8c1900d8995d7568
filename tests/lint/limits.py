"""Checks the size limits: headers 150 lines, sources 400, functions 60, folders 30 files. Functions are measured by lizard, which lives
in the test venv: run this with its Python."""
import collections

import tree

HEADER_LINES = 150
SOURCE_LINES = 400
FUNCTION_LINES = 60
FOLDER_FILES = 30


def main():
    options = tree.arguments(__doc__)
    try:
        import lizard
    except ImportError:
        raise SystemExit("limits.py: lizard is missing; ./make.sh setup test installs it, then configure again")
    findings = []
    files = tree.code_files(options.root, "src", "checkpoints_tool")
    for folder, count in collections.Counter(path.parent for path in files).items():
        if count > FOLDER_FILES:
            findings.append(f"{folder}: {count} files, the limit is {FOLDER_FILES}: give it rooms (docs/architecture.md)")
    for path in files:
        text = (options.root / path).read_text(errors="replace")
        lines = text.count("\n")
        limit = HEADER_LINES if path.suffix in (".h", ".cuh") else SOURCE_LINES
        if lines > limit:
            findings.append(f"{path}:{limit}: {lines} lines, the limit is {limit}: split it by idea")
        for function in lizard.analyze_file.analyze_source_code(path.as_posix(), text).function_list:
            if function.length > FUNCTION_LINES:
                findings.append(f"{path}:{function.start_line}: {function.name} has {function.length} lines, "
                                f"the limit is {FUNCTION_LINES}")
    tree.report(findings, len(files))


if __name__ == "__main__":
    main()
