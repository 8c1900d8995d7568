"""Golden tables: texts that tests expect word for word, many to a file. docs/contributing.md tells their format, of which
these tests need no parts: a case has one text. tests/support/golden_table.h reads and writes tables for C++."""
import fcntl
import os
import re

ABOUT = ""  # the name under which read() has what stands above the first case
ESCAPE = rb"\\(\\|x[0-9a-f]{2})"
ESCAPED_LINE = re.compile(rb"\\(?: ((?:[^\\]|%s)*)(\\c)?)?" % ESCAPE)
# Could be read as another line, or not be seen.
UNCLEAR_LINE = re.compile(rb"(== |-- |\\).*|.*[^ -~].*|.* ", re.S)


class Fault(Exception):
    """A table that cannot be read."""


def read(table):
    """{name: text as bytes} of a table; {} where there is no such file."""
    texts, name, blank_lines = {}, ABOUT, 0
    for number, line in enumerate(table.read_bytes().split(b"\n") if table.exists() else [], 1):
        try:
            if line.startswith(b"== "):
                name, blank_lines = line[3:].decode(), 0
                if name in texts:
                    raise Fault(f"a second case '{name}'")
                texts[name] = b""
            elif line:
                text = texts.get(name, b"") + b"\n" * blank_lines
                if text and not text.endswith(b"\n"):
                    raise Fault("nothing may follow \\c")
                texts[name], blank_lines = text + _content(line), 0
            else:
                blank_lines += 1  # counts where more follows
        except Fault as fault:
            raise Fault(f"{table}:{number}: {fault}") from None
    return texts


def _content(line):
    """What a line of a table stands for."""
    if line.startswith(b"-- "):
        raise Fault("a part; the cases of these tests have none")
    if not line.startswith(b"\\"):
        return line + b"\n"
    parts = ESCAPED_LINE.fullmatch(line)
    if not parts:
        raise Fault("expected a space behind the backslash, then \\\\, \\xNN or a final \\c for each other one")
    text = re.sub(ESCAPE, lambda found: b"\\" if found[1] == b"\\" else bytes([int(found[1][1:], 16)]), parts[1] or b"")
    return text + (b"" if parts[3] else b"\n")


def _spelt(text):
    """The lines of a table that stand for `text`."""
    *lines, rest = text.split(b"\n")
    while lines:
        line = lines.pop(0)
        unclear = UNCLEAR_LINE.fullmatch(line) or not (line or lines or rest)
        yield _escaped(line) if unclear else line
    if rest:
        yield _escaped(rest) + b"\\c"


def _escaped(line):
    text = re.sub(rb"\\|[^ -~]| $", lambda found: b"\\\\" if found[0] == b"\\" else b"\\x%02x" % found[0][0], line)
    return b"\\ " + text if text else b"\\"


def _update(table, name, text):
    """Puts a text into a table, whose cases stand by name. Readers see the old table or the new one."""
    lock = os.open(table.parent, os.O_RDONLY)  # not the table, which is replaced
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        texts = {**read(table), name: text}
        cases = [[f"== {name}".encode(), *_spelt(texts[name])] for name in sorted(texts) if name != ABOUT]
        cases.insert(0, list(_spelt(texts.get(ABOUT, b""))))
        draft = table.with_suffix(".part")
        draft.write_bytes(b"\n\n".join(b"\n".join(lines) for lines in cases if lines) + b"\n")
        draft.replace(table)
    finally:
        os.close(lock)


def expected(table, name, said):
    """What a table expects of a case; None where it has none of that name. With ECHELON_UPDATE_GOLDEN=1 the table takes
    over `said` first, also while other processes update it."""
    if os.environ.get("ECHELON_UPDATE_GOLDEN") == "1":
        _update(table, name, said.encode())
    text = read(table).get(name)
    return None if text is None else text.decode()
