"""Checks that clang-format would change nothing. The version in the test venv decides; ./make.sh format applies it."""
import pathlib
import subprocess
import sys

import tree


def main():
    options = tree.arguments(__doc__)
    program = pathlib.Path(sys.executable).parent / "clang-format"
    if not program.exists():
        raise SystemExit(f"format.py: {program} is missing: run this with the Python of .venv-test (./make.sh setup test)")
    files = tree.code_files(options.root, "src", "checkpoints_tool", "tests")
    result = subprocess.run([program, "--dry-run", "-Werror", *(path.as_posix() for path in files)], cwd=options.root,
                            capture_output=True, text=True)
    first = {line.split(":")[0]: line for line in reversed(result.stderr.splitlines()) if ": error: " in line}
    findings = [f"{line} (run ./make.sh format)" for line in sorted(first.values())]
    if result.returncode and not findings:
        findings = [f"clang-format failed: {result.stderr.strip()}"]
    tree.report(findings, len(files))


if __name__ == "__main__":
    main()
