"""What every lint script shares: the command line, the files of the project, the report."""
import argparse
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
CODE = (".h", ".cpp", ".cu", ".cuh")


def arguments(what, **options):
    """Parses --root and the named string options; returns them with `root` as a path."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--root", default=str(TOP), help="project folder")
    for name, text in options.items():
        parser.add_argument("--" + name.replace("_", "-"), default="", help=text)
    parsed = parser.parse_args()
    parsed.root = pathlib.Path(parsed.root)
    return parsed


def project_files(root):
    """Relative paths of all files that git tracks or would track; every file where there is no git checkout."""
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z", "-co",
                                 "--exclude-standard"], check=True, capture_output=True).stdout
        names = [pathlib.Path(name) for name in listed.decode().split("\0") if name]
    else:
        names = [path.relative_to(root) for path in root.rglob("*")]
        names = [name for name in names if name.parts[0] not in ("build", "data", "runs", ".venv", ".venv-test", ".venv-cluster", ".venv-deepspeed",
                                                            ".venv-datasets")]
    return sorted(name for name in names if (root / name).is_file() and not (root / name).is_symlink())


def code_files(root, *folders):
    return [path for path in project_files(root) if path.suffix in CODE and path.parts[0] in folders]


def skip(why):
    """Ends the process with the exit code by which CTest knows a skipped test."""
    print(f"SKIPPED: {why}")
    sys.exit(77)


def report(findings, checked):
    """Prints one line for each finding and ends the process: 0 without findings, else 1. Checking nothing is a fault."""
    for finding in findings:
        print(finding)
    if not checked:
        print("nothing to check: wrong --root?")
    print(f"{len(findings)} findings in {checked} files")
    sys.exit(1 if findings or not checked else 0)
