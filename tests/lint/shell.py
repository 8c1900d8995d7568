"""Checks every shell script with `bash -n` and shellcheck."""
import shutil
import subprocess

import tree


SHELLCHECK = ["shellcheck", "-x", "--source-path=SCRIPTDIR", "--format=gcc", "--severity=info", "--shell=bash"]


def is_script(path):
    if path.suffix in (".sh", ".bash", ".sbatch"):
        return True
    with path.open("rb") as file:
        return file.readline(80).startswith((b"#!/bin/bash", b"#!/usr/bin/env bash", b"#!/bin/sh"))


def main():
    options = tree.arguments(__doc__)
    if not shutil.which("shellcheck"):
        raise SystemExit("shell.py: shellcheck is missing; ./make.sh setup test installs it")
    scripts = [path for path in tree.project_files(options.root) if is_script(options.root / path)]
    findings = []
    for path in scripts:
        for command in (["bash", "-n"], SHELLCHECK):
            result = subprocess.run([*command, path.as_posix()], cwd=options.root, capture_output=True, text=True)
            findings += (result.stdout + result.stderr).splitlines() if result.returncode else []
    tree.report(findings, len(scripts))


if __name__ == "__main__":
    main()
