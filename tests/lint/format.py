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
    findings = []
    for path in files:
        result = subprocess.run([program, "--dry-run", "-Werror", path.as_posix()], cwd=options.root,
                                capture_output=True, text=True)
        if result.returncode:
            first = next(iter(result.stderr.splitlines()), "clang-format failed")
            findings.append(f"{first} (run ./make.sh format)")
    tree.report(findings, len(files))


if __name__ == "__main__":
    main()
