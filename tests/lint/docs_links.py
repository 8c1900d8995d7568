"""Checks that every relative link of every Markdown file leads to a file, and its #part to a heading, of the project."""
import re

import tree

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.S | re.M)


def anchors(text):
    """The names under which headings can be linked, as code hosts make them."""
    titles = re.findall(r"^#+ +(.*?)\s*$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def check(root, page, link):
    """What is wrong with one link, or None."""
    target, _, part = link.partition("#")
    path = root / page.parent / target if target else root / page
    if not path.exists():
        return "leads nowhere"
    if part and path.suffix == ".md" and part not in anchors(path.read_text()):
        return f"no heading '{part}' there"
    return None


def main():
    options = tree.arguments(__doc__)
    pages = [path for path in tree.project_files(options.root) if path.suffix == ".md"]
    findings = []
    for page in pages:
        text = FENCE.sub(lambda match: "\n" * match[0].count("\n"), (options.root / page).read_text())
        for number, line in enumerate(text.splitlines(), 1):
            for link in LINK.findall(line):
                fault = None if re.match(r"[a-z]+:", link) else check(options.root, page, link)
                if fault:
                    findings.append(f"{page}:{number}: link '{link}': {fault}")
    tree.report(findings, len(pages))


if __name__ == "__main__":
    main()
