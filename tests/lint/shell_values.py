"""Finds values that a file gave and that bash would compute before a pattern has passed them.

Bash computes what stands in (( )), $(( )), beside -eq and -lt in [[ ]], in the subscript of an array and behind the colon of
${x:off}, and what printf %d, ${!x}, let and declare -i are given: there `a[$(command)]` runs the command. A name is a file's
from the `read` or `mapfile`, or the $(cat ...), $(sed ...) and their like, that sets it, in its function if it is local
there; a test with =~ that names it ends that. Tests of Echelon read what they wrote themselves.
"""
import re

import tree
from shell import is_script

READERS = r"<|cat|head|tail|tac|cut|sed|awk|grep|jq|tr|sort|xargs"
GIVEN = (re.compile(r"\b(?:read|mapfile|readarray)\b((?:\s+(?:-\w*[dp]\s+\S+|[-\w\"$]+))+)"),
         re.compile(rf"\b(\w+)\+?=\(?[\"']?\$\((?:[^()]*\|\s*)?(?:{READERS})"))
PASSED_ON = re.compile(r"\b(\w+)\+?=(\S*)|\bfor (\w+) in ([^;]*)")  # into another name
CHECKED = re.compile(r"\[\[.*?(\S*\$\S*(?: \S*\$\S*)*) =~ ")
COMPUTED = tuple(map(re.compile, (
    r"\(\((.+?)\)\)",
    r"\[\[.*?(\S+) -(?:eq|ne|lt|le|gt|ge) \S+",
    r"\[\[.*? -(?:eq|ne|lt|le|gt|ge) (\S+)",
    r"\b\w+\[([^]]+)\]",
    r"\$\{\w+(?:\[[@*]\])?:([^}=+?-][^}]*)\}",
    r"\$\{!(\w+)\}",
    r"\bprintf\s+\S*%[-+ #0-9.]*[diuoxXeEfgG](.*)",
    r"\b(?:let|(?:declare|local|typeset) -\w*i\w*)\s(.*)",
)))
FUNCTION = re.compile(r"(?:function\s+)?([\w-]+)\(\)\s*\{")


def names(text):
    """The variables in a text that bash computes, but those of which it takes the length."""
    return set(re.findall(r"[A-Za-z_]\w*", re.sub(r"\$\{#\w+(?:\[[@*]\])?\}|\$\(\w.*?\)", "", text)))


def check(lines):
    """(line, name) for each value that is computed unseen."""
    everywhere, here, local = {}, {}, set()  # name: the line that gave it
    inside = False
    for number, line in enumerate(lines, 1):
        text = re.sub(r"(^|\s)#.*", "", line)
        if FUNCTION.match(text):
            inside, here, local = not text.rstrip().endswith("}"), {}, set()
        elif inside and text.startswith("}"):
            inside, here, local = False, {}, set()
        for words in re.findall(r"\blocal\s+([^;]*)", text) if inside else ():
            local |= {word.split("=")[0] for word in words.split()}
        given = lambda name: name in here or name in everywhere and name not in local
        for group in CHECKED.findall(text):
            for name in names(group):
                (here if name in local else everywhere).pop(name, None)
        for pattern in COMPUTED:
            for found in pattern.findall(text):
                yield from ((number, name) for name in sorted(names(found)) if given(name))
        new = {word for found in GIVEN[0].findall(text) for word in found.split() if word.isidentifier()}
        new |= set(GIVEN[1].findall(text))
        for to, value, loop, values in PASSED_ON.findall(text):
            if any(given(name) for name in re.findall(r"\$\{?(\w+)", value + values)):
                new.add(to or loop)
        for name in new:
            (here if name in local else everywhere)[name] = number


def main():
    root = tree.arguments(__doc__).root
    scripts = [path for path in tree.project_files(root) if is_script(root / path) and path.parts[0] != "tests"]
    findings = []
    for path in scripts:
        for number, name in check((root / path).read_text().splitlines()):
            findings.append(f"{path}:{number}: bash would run a command in '{name}', which comes from a file: test it with =~ before")
    tree.report(findings, len(scripts))


if __name__ == "__main__":
    main()
