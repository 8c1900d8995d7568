"""Pairs to summarize without a download: the docstrings of the Python sources under a folder, as CSV.

A row's `headline` is a docstring's summary line (its first paragraph), its `text` what follows. Pairs are left out whose
summary has fewer than 3 or whose text has fewer than 12 words, and all but the first of those with the same summary or
the same text, so that no pair of the validation set is in the training set as well.
"""
import ast
import csv
import pathlib
import re
import warnings

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(folder):
    """Docstrings of all sources, in the order of their paths; sources that are no Python 3 are passed over."""
    for path in sorted(pathlib.Path(folder).rglob("*.py")):
        try:
            tree = ast.parse(path.read_text("utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
                yield ast.get_docstring(node).strip()


def pairs(folder):
    seen = set()
    for text in docstrings(folder):
        summary, *rest = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text, maxsplit=1))
        body = rest[0] if rest else ""
        if len(summary.split()) < 3 or len(body.split()) < 12 or summary in seen or body in seen:
            continue
        seen.update((summary, body))
        yield summary, body


def write(folder, output):
    """The pairs of the sources in `folder` as a CSV file."""
    warnings.simplefilter("ignore")  # escapes in old sources
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("headline", "text"))
        writer.writerows(pairs(folder))
