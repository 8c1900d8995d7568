"""Checks that clang-format would change nothing. Version 14 decides; ./make.sh format applies it."""
import shutil
import subprocess

import tree


def main():
    options = tree.arguments(__doc__)
    program = shutil.which("clang-format-14")
    if not program:
        raise SystemExit("format.py: clang-format-14 is missing; ./make.sh setup test installs it")
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
