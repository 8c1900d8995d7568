"""Checks that no project file names paths of one machine or package registry hosts, or is marked as unfinished."""
import re

import tree

RULES = [
    ("a path of one machine", re.compile(r"(?<![\w.$}*\]])/(work|root|farm)/\w|/var/tmp/ech|/home/(?!ubuntu\b|ec2-user\b)\w")),
    ("the name of a package registry", re.compile(
        r"pypi\.org|pythonhosted|deb\.debian\.org|security\.debian|archive\.ubuntu|download\.pytorch")),
    ("marked as unfinished", re.compile(
        r"\b(TODO|FIXME|XXX)\b|(?i:\bnot (yet )?implemented\b|\bunimplemented\b|\bplaceholder\b|\bfor now\b)")),
    ("about how the work is organised", re.compile(r"(?i:\bcoding agent|\bthis session\b|\bclaude\b)")),
]
EXEMPT = {"LICENSE", "tests/lint/clean_tree.py", "tests/lint/selftest.py"}


def main():
    options = tree.arguments(__doc__)
    findings, checked = [], 0
    for path in tree.project_files(options.root):
        try:
            lines = (options.root / path).read_text().splitlines()
        except UnicodeDecodeError:
            continue  # binary
        if path.as_posix() in EXEMPT:
            continue
        checked += 1
        for number, line in enumerate(lines, 1):
            for what, pattern in RULES:
                match = pattern.search(line)
                if match:
                    findings.append(f"{path}:{number}: {what}: '{match[0]}'")
    tree.report(findings, checked)


if __name__ == "__main__":
    main()
