"""Checks the #SBATCH lines of every *.sbatch: Slurm reads them itself, takes what it does not understand for a comment when
it is misspelt, and shellcheck does not look at them."""
import re

import tree

TIME = r"(?:\d+|(?:\d+-)?\d+(?::\d\d){0,2}|UNLIMITED)"
PATH = r"[\w./%-]+"
NAMES = r"[\w.,\[\]-]+"
FLAG = None  # an option without a value

# The options in use here and what their values look like; those of other jobs are added when a script needs them.
OPTIONS = {
    "account": r"[\w.-]+", "array": r"[\d,:%-]+", "chdir": PATH, "comment": r"[\w .,:=-]+", "constraint": r"[\w&|*\[\],.-]+",
    "cpus-per-task": r"[1-9]\d*", "dependency": r"[\w:,?]+", "error": PATH, "exclude": NAMES, "exclusive": FLAG,
    "gpus-per-node": r"(?:\w+:)?[1-9]\d*", "hint": r"\w+", "job-name": r"[\w.-]+", "mem": r"\d+[KMGT]?", "no-requeue": FLAG,
    "nodelist": NAMES, "nodes": r"[1-9]\d*(?:-[1-9]\d*)?", "ntasks": r"[1-9]\d*", "ntasks-per-node": r"[1-9]\d*",
    "open-mode": r"append|truncate", "output": PATH, "partition": r"[\w,-]+", "qos": r"[\w.-]+", "requeue": FLAG,
    "reservation": r"[\w.-]+", "signal": r"(?:[RB]{1,2}:)?\w+(?:@\d{1,5})?", "switches": r"\d+(?:@.+)?", "time": TIME,
    "wait-all-nodes": r"[01]",
}
# With a space, or in other letters. "#   sbatch FILE" in small letters is a comment that tells how to use the script.
MISSPELT = re.compile(r"^(?:\s*#+\s+SBATCH|\s+#SBATCH|#+(?i:sbatch))\b")
PATTERNS = "%AaJjNnstuxbr"  # what % may stand for in a file name


def check_value(option, value):
    """What is wrong with one option, or None."""
    if option not in OPTIONS:
        return f"--{option} is not an option of sbatch, or not one of the list in tests/lint/sbatch.py"
    form = OPTIONS[option]
    if form is FLAG:
        return f"--{option} takes no value" if value else None
    if not re.fullmatch(form, value):
        return f"--{option}='{value}': expected a value like {form}"
    if option in ("output", "error"):
        for match in re.finditer(r"%\d*(.?)", value):
            if not match[1] or match[1] not in PATTERNS:
                return f"--{option}: '{match[0]}' stands for nothing"
        if "/" in value:
            return f"--{option}='{value}': Slurm makes no folders, and without one the output is lost"
    return None


def check_together(options):
    """What is wrong with the options as a whole."""
    if "requeue" in options and options.get("open-mode") != "append":
        yield "--requeue without --open-mode=append: the second start would truncate the log of the first"
    if options.get("signal", "").partition(":")[0] in ("B", "RB", "BR"):
        yield "--signal=B: reaches the batch shell only; the ranks have to get it"
    for option in ("job-name", "output", "time"):
        if option not in options:
            yield f"no --{option}"
    if {"requeue", "no-requeue"} <= options.keys():
        yield "--requeue and --no-requeue"


def check(path, lines):
    """Findings in one script, as text for people."""
    if not lines or not re.match(r"#!.*\b(ba)?sh\b", lines[0]):
        yield f"{path}:1: sbatch needs a first line that names a shell"
    options, in_commands = {}, False
    for number, line in enumerate(lines, 1):
        if not line.startswith("#SBATCH"):
            if MISSPELT.match(line):
                yield f"{path}:{number}: '{line.strip()}' is a comment to Slurm: write '#SBATCH' at the start of the line"
            in_commands = in_commands or bool(line.strip() and not line.lstrip().startswith("#"))
            continue
        if in_commands:
            yield f"{path}:{number}: Slurm reads no #SBATCH line behind the first command"
        match = re.fullmatch(r"#SBATCH\s+--([\w-]+)(?:=(\S.*?))?\s*(?:\s#.*)?", line)
        if not match:
            yield f"{path}:{number}: expected '#SBATCH --option' or '#SBATCH --option=value'"
            continue
        option, value = match[1], match[2] or ""
        if option in options:
            yield f"{path}:{number}: --{option} a second time"
        options[option] = value
        fault = check_value(option, value)
        if fault:
            yield f"{path}:{number}: {fault}"
    yield from (f"{path}:1: {fault}" for fault in check_together(options))


def main():
    parsed = tree.arguments(__doc__)
    scripts = [path for path in tree.project_files(parsed.root) if path.suffix == ".sbatch"]
    findings = []
    for path in scripts:
        findings += check(path, (parsed.root / path).read_text().splitlines())
    tree.report(findings, len(scripts))


if __name__ == "__main__":
    main()
