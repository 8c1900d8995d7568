"""The linters as functions: a text under the name of a file in, findings out, a line each."""
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "lint"))

import cfnlint.api  # noqa: E402
import sbatch  # noqa: E402
import shell  # noqa: E402

PROGRAMS = pathlib.Path(sys.executable).parent  # the venv's bin folder; not resolved, its python is a link


def lines_of(command, text, name):
    """What a linter prints about a file `name` that holds `text`; nothing when it has no finding."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / name
        path.write_text(text)
        result = subprocess.run([*map(str, command), str(path)], capture_output=True, text=True, cwd=folder)
    lines = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
    if result.returncode and not lines:
        raise RuntimeError(f"{command[0]} ended with {result.returncode} and said nothing")
    return lines if result.returncode else []


def cloudformation(text):
    found = cfnlint.api.lint(text, regions=["us-east-1", "us-east-2", "us-west-2", "eu-north-1"])  # where such nodes are
    return [f"{match.linenumber}: {match.rule.id} {match.message}" for match in found]


def dockerfile(text):
    return lines_of([PROGRAMS / "hadolint", "--no-color"], text, "Dockerfile")


def script(text):
    return lines_of(["bash", "-n"], text, "script.sh") or lines_of(shell.SHELLCHECK, text, "script.sh")


def directives(text):
    return list(sbatch.check("script.sbatch", text.splitlines()))
