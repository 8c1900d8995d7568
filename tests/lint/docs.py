"""Checks every Markdown file: relative links lead to a file of the project and their #part to a heading, and a code
block below the line `<!-- file: PATH -->` is that file, word for word."""
import re

import tree

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SHOWN = re.compile(r"^<!-- file: (\S+) -->\n```\w*\n(.*?)^```", re.S | re.M)
FENCE = re.compile(r"^```.*?^```", re.S | re.M)


def anchors(text):
    """The names under which headings can be linked, as code hosts make them."""
    titles = re.findall(r"^#+ +(.*?)\s*$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def check_link(root, page, link):
    """What is wrong with one link, or None."""
    target, _, part = link.partition("#")
    path = root / page.parent / target if target else root / page
    if not path.exists():
        return "leads nowhere"
    if part and path.suffix == ".md" and part not in anchors(path.read_text()):
        return f"no heading '{part}' there"
    return None


def check_shown_files(root, page, text):
    """Findings on the code blocks that show a file."""
    for match in SHOWN.finditer(text):
        path = root / match[1]
        if not path.exists() or path.read_text() != match[2]:
            line = text[:match.start()].count("\n") + 1
            yield f"{page}:{line}: the block is not what {match[1]} holds"


def main():
    options = tree.arguments(__doc__)
    pages = [path for path in tree.project_files(options.root) if path.suffix == ".md"]
    findings = []
    for page in pages:
        text = (options.root / page).read_text()
        findings += check_shown_files(options.root, page, text)
        text = FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
        for number, line in enumerate(text.splitlines(), 1):
            for link in LINK.findall(line):
                fault = None if re.match(r"[a-z]+:", link) else check_link(options.root, page, link)
                if fault:
                    findings.append(f"{page}:{number}: link '{link}': {fault}")
    tree.report(findings, len(pages))


if __name__ == "__main__":
    main()
