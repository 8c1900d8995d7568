"""Makes what shows figures, docs/benchmarks.md first, from docs/bench/*.json and the templates beside them (*.md.in).

A template is Markdown with inserts, and holds no number of its own: figures and sizes come from the files.
  {{fact NAME KEY}}                          a value of `facts`
  {{median NAME CASE SIDE METRIC}}           a figure
  {{ratio NAME CASE PEER METRIC}}            how many times better Echelon is, with the range of its pairs
  {{table NAME [METRIC]...}}                 its cases and sides, with ratios
  {{chart NAME METRIC [CASE]...}}            the same as bars, in an SVG of its own
  {{measured NAME}}                          the command, day, machine, commit and notes
  {{machine NAME}}                           the letter of its machine
  {{machines}}, {{machines_of NAME...}}      what all files, or those named, were measured on
  {{outcomes}}                               what Echelon loses and wins, of all files
A benchmark that has no file yet is "not measured yet": it has neither table nor chart.
"""
import collections
import inspect
import pathlib
import re
import shutil

import chart
import form

DATA = pathlib.Path("docs/bench")
# template: (the file it makes, whether it is all of that file or what stands between the two marks)
TEMPLATES = {"benchmarks.md.in": (pathlib.Path("docs/benchmarks.md"), True), "readme.md.in": (pathlib.Path("README.md"), False),
             "tuning.md.in": (pathlib.Path("docs/tuning.md"), False)}
BEGIN, END = "<!-- figures: made by ./make.sh bench --page -->\n", "<!-- end of figures -->"
INSERT = re.compile(r"\{\{(.+?)\}\}")
# What a template may hold digits in: code, places of links, comments, and words such as FSDP2, GPT-2 or ZeRO-3.
NO_FIGURE = re.compile(r"\{\{.+?\}\}|```.*?```|`[^`]*`|\]\([^)]*\)|<!--.*?-->|[A-Za-z][\w-]*\d\w*", re.S)


class Fault(SystemExit):
    """One line: what is wrong with a template or a file."""


# ---- values as text

def digits3(value):
    """At most three significant digits, never in powers of ten."""
    text = f"{value:.3g}"
    return f"{float(text):.0f}" if "e" in text else text


def scaled(value, steps, unit):
    for size, prefix in steps:
        if abs(value) >= size:
            return f"{digits3(value / size)} {prefix}{unit}".rstrip()
    return f"{digits3(value)} {unit}".rstrip()


def shown(value, unit):
    """A value with its unit."""
    if value is None:
        return ""
    if unit == "s":
        return f"{digits3(value)} s" if value >= 0.1 or not value else scaled(value, ((1e-3, "m"), (1e-6, "u"), (1e-9, "n")), "s")
    if unit == "bytes":
        return scaled(value, ((2**30, "G"), (2**20, "M"), (2**10, "K")), "iB")
    if unit == "share":
        return f"{100 * value:.2f} %" if value < 0.01 else f"{100 * value:.1f} %" if value > 0.95 or value < 0.1 else f"{100 * value:.0f} %"
    if unit == "count":
        return f"{value:,}"
    if unit == "ratio":
        return f"{value:.3f}" if 0.99 < value < 1.1 else digits3(value)
    if unit in ("tokens/s", "flop/s", "flop"):
        name = {"flop/s": "FLOP/s", "flop": "FLOP"}.get(unit, "")
        return scaled(value, ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")), name) if value >= 1e4 else f"{value:.0f}"
    if unit == "" and isinstance(value, (int, float)):
        return scaled(value, ((1e9, "G"), (1e6, "M")), "") if value >= 1e6 else f"{value:,}"
    return f"{value} {unit}".rstrip()


def ratio_text(ratio):
    """The median and its range."""
    def short(value):
        return f"{value:.2f}" if value < 10 else f"{value:.0f}"
    text = short(ratio["median"])
    if ratio["min"] is not None and short(ratio["min"]) != short(ratio["max"]):
        text += f" ({short(ratio['min'])} to {short(ratio['max'])})"
    return text


def outcome(ratio):
    low, high = (ratio["median"] if ratio[name] is None else ratio[name] for name in ("min", "max"))
    return "win" if low > 1 else "loss" if high < 1 else "draw"


# ---- what is read

class Files:
    def __init__(self, root):
        self.root, self.charts = root, {}
        self.documents = {path.stem: form.read(path) for path in sorted((root / DATA).glob("*.json"))}
        for name, document in self.documents.items():
            if document["mode"] == "smoke":
                raise Fault(f"{DATA}/{name}.json: a smoke run measures nothing; run ./make.sh bench {name}")
        self.letters = {}
        for document in self.documents.values():
            self.letters.setdefault(machine_text(document["machine"]), chr(ord("A") + len(self.letters)))

    def document(self, name):
        if name not in self.documents:
            raise Fault(f"a template wants {DATA}/{name}.json, which does not exist: ./make.sh bench {name} --publish")
        return self.documents[name]

    def case(self, name, case):
        for found in self.document(name)["cases"]:
            if found["name"] == case:
                return found
        raise Fault(f"{DATA}/{name}.json has no case '{case}'")


def machine_text(machine):
    sets = ", ".join(machine.get("instruction_sets") or [])
    return (f"{machine['cores']} cores of {machine['cpu']}" + (f" ({sets})" if sets else "") +
            (", virtual" if machine.get("virtual") else "") + f", {machine['memory_gib']:g} GiB, {machine['os']}")


# ---- inserts

def fact(files, name, key):
    facts = files.document(name)["facts"]
    if key not in facts:
        raise Fault(f"{DATA}/{name}.json has no fact '{key}'")
    return shown(facts[key]["value"], facts[key]["unit"])


def median(files, name, case, side, metric):
    try:
        value = files.case(name, case)["summary"][side][metric]["median"]
    except KeyError as missing:
        raise Fault(f"{DATA}/{name}.json, case '{case}': no {missing}") from None
    return shown(value, files.document(name)["metrics"][metric]["unit"])


def ratio(files, name, case, peer, metric):
    for found in files.case(name, case)["ratios"]:
        if (found["peer"], found["metric"]) == (peer, metric):
            return ratio_text(found)
    raise Fault(f"{DATA}/{name}.json, case '{case}': no ratio to '{peer}' in {metric}")


def cell(case, side, metric, unit):
    values = case["summary"].get(side, {}).get(metric)
    return shown(values["median"], unit) if values else ""


def ratio_cell(case, ours, peer, metric, compares):
    found = [r for r in case["ratios"] if (r["ours"], r["peer"], r["metric"]) == (ours, peer, metric)]
    if not found:
        return ""
    text = ratio_text(found[0])
    rivals = compares and peer not in case["bounds"]
    return f"**{text}**, {outcome(found[0])}" if rivals and outcome(found[0]) != "win" else text


def ratio_titles(document, compared):
    """{metric: what its ratio says}."""
    if not document["compares"]:
        return {name: f"{document['metrics'][name]['title']}, ratio" for name in compared}
    words = {"s": "times as fast", "tokens/s": "times as fast", "bytes": "times less memory"}
    found = {name: words.get(document["metrics"][name]["unit"], "times as good") for name in compared}
    return {name: f"{text}, {document['metrics'][name]['title']}" if list(found.values()).count(text) > 1 else text for name, text in found.items()}


def titles(document, case, side):
    several = len(document["cases"]) > 1
    alone = len(case["sides"]) == 1
    return case["title"] if several and alone else f"{case['title']}: {case['sides'][side]}" if several else case["sides"][side]


def rows_by_side(document, metrics, compared):
    """A row for each side of each case."""
    ours = list(dict.fromkeys(name for case in document["cases"] for name in case["ours"]))
    named = [""] if len(ours) < 2 else [f"{document['cases'][0]['sides'][name]}: " for name in ours]
    yield ["", *(metric["title"] for metric in metrics.values()),
           *(f"{name}{text}" for text in ratio_titles(document, compared).values() for name in named)]
    for case in document["cases"]:
        for side in case["sides"]:
            if side not in case["summary"] and not any(ratio["peer"] == side for ratio in case["ratios"]):
                continue
            yield [titles(document, case, side), *(cell(case, side, name, metric["unit"]) for name, metric in metrics.items()),
                   *(ratio_cell(case, name, side, metric, document["compares"]) for metric in compared for name in ours)]


def rows_by_case(document, metrics, compared):
    """A row for each case, its sides beside one another."""
    sides = list(dict.fromkeys((side, title) for case in document["cases"] for side, title in case["sides"].items()))
    used = {(side, name) for case in document["cases"] for side, values in case["summary"].items() for name in values}
    columns = [(side, title, name) for side, title in sides for name in metrics if (side, name) in used]
    peers = [(side, name) for name in compared for side, _ in sides if any(r["peer"] == side for c in document["cases"] for r in c["ratios"])]
    beside = {side: f", beside {title}" if len({peer for peer, _ in peers}) > 1 else "" for side, title in sides}
    yield ["", *(f"{title}, {metrics[name]['title']}" for _, title, name in columns),
           *(ratio_titles(document, compared)[name] + beside[side] for side, name in peers)]
    for case in document["cases"]:
        yield [case["title"], *(cell(case, side, name, metrics[name]["unit"]) for side, _, name in columns),
               *(ratio_cell(case, case["ours"][0], side, name, document["compares"]) for side, name in peers)]


def rows_of_pairs(document, metrics, compared):
    """A row for each case, which is one change of the same base: what it takes, and its ratio to the base beside it."""
    yield ["change", *(metric["title"] for metric in metrics.values()), *ratio_titles(document, compared).values()]
    first = document["cases"][0]
    yield [f"{first['sides']['base']} (base)", *(cell(first, "base", name, metric["unit"]) for name, metric in metrics.items()),
           *("1" for _ in compared)]
    for case in document["cases"]:
        yield [case["title"], *(cell(case, "changed", name, metric["unit"]) for name, metric in metrics.items()),
               *(ratio_cell(case, "base", "changed", name, False) for name in compared)]


def table(files, name, *wanted):
    document = files.document(name)
    if unknown := set(wanted) - set(document["metrics"]):
        raise Fault(f"{DATA}/{name}.json has no metric '{min(unknown)}'")
    used = {key for case in document["cases"] for values in case["summary"].values() for key in values}
    used |= {ratio["metric"] for case in document["cases"] for ratio in case["ratios"]}
    metrics = {key: metric for key, metric in document["metrics"].items() if key in (wanted or used)}
    compared = [key for key in metrics if any(r["metric"] == key for case in document["cases"] for r in case["ratios"])]
    make = {"rows": rows_by_side, "columns": rows_by_case, "pairs": rows_of_pairs}[document["layout"]]
    head, *rows = make(document, metrics, compared)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def drawn(files, name, metric, *cases):
    document = files.document(name)
    unit, title = document["metrics"][metric]["unit"], document["metrics"][metric]["title"]
    groups = []
    for case in document["cases"]:
        rows = [(case["sides"][side], side in case["ours"], fill(values[metric])) for side, values in case["summary"].items() if metric in values]
        if rows and (not cases or case["name"] in cases):
            groups.append((case["title"].replace("`", ""), rows))
    if not groups:
        raise Fault(f"{DATA}/{name}.json has nothing to draw of {metric} {' '.join(cases)}")
    better = {"lower": " (less is better)", "higher": " (more is better)"}.get(document["metrics"][metric]["better"], "")
    heading = (f"{groups[0][0]}: {title}" if len(groups) == 1 else title[0].upper() + title[1:]) + better
    text = chart.bars(heading, groups if len(groups) > 1 else [(None, groups[0][1])], lambda value: shown(value, unit))
    path = DATA / f"{name}-{metric}{''.join('-' + case for case in cases)}.svg"
    files.charts[path] = text
    said = ". ".join((f"{group}: " if len(groups) > 1 else "") + "; ".join(f"{side} {shown(values['median'], unit)}" for side, _, values in rows)
                     for group, rows in groups)
    return f"![{heading}: {said}]({{{{here}}}}{path.name})"


def fill(values):
    """Figures that were copied may have no range."""
    return {name: values["median"] if values[name] is None else values[name] for name in ("median", "min", "max")}


def measured(files, name):
    document = files.document(name)
    command = "No command repeats this" if document["once"] else f"`{document['command']}`"
    counts = sorted({len(case["rounds"]) for case in document["cases"]})
    parts = [f"{document['measured'][:10]} on {machine(files, name)}"]
    if document["transcribed"]:
        parts.append("copied from an earlier version of this page, without samples")
    else:
        parts.append(f"commit {document['commit']}" + (" with changes" if document["dirty"] else ""))
        parts.append(f"{' to '.join(dict.fromkeys(map(str, (counts[0], counts[-1]))))} round{'s' * (counts != [1])}")
    if not document["complete"]:
        parts.append("interrupted")
    return f"{command}: {'; '.join(parts + document['notes'])}."


def machine(files, name):
    return f"machine {files.letters[machine_text(files.document(name)['machine'])]}"


def machines(files):
    return "\n".join(machine_lines(files, files.documents))


def machines_of(files, *names):
    return " ".join(machine_lines(files, names)).replace("- **", "Machine **")


def machine_lines(files, names):
    used = collections.defaultdict(set)
    for document in (files.documents[name] for name in names if name in files.documents):
        used[machine_text(document["machine"])].update(f"{name} {version}" for name, version in document["versions"].items() if version)
    return [f"- **{files.letters[text]}**: {text}. {'; '.join(sorted(versions, key=str.lower))}." for text, versions in used.items()]


def outcomes(files):
    """Losses and draws one by one, wins by benchmark."""
    found = collections.defaultdict(list)
    for name, document in files.documents.items():
        for case in document["cases"] if document["compares"] and not document["once"] else ():
            for ratio in (ratio for ratio in case["ratios"] if ratio["peer"] not in case["bounds"]):
                found[outcome(ratio)].append((name, document, case, ratio))
    lines = ["| Echelon | measured by | case | beside | what | times as good |", "|---|---|---|---|---|---|"]
    for kind in ("loss", "draw"):
        for name, document, case, ratio in found[kind]:
            ours = f" ({case['sides'][ratio['ours']]})" if len(case["ours"]) > 1 else ""
            lines.append(f"| {kind} | `{name}` | {case['title']}{ours} | {case['sides'][ratio['peer']]} | "
                         f"{document['metrics'][ratio['metric']]['title']} | {ratio_text(ratio)} |")
    wins = collections.defaultdict(list)
    for name, document, _, ratio in found["win"]:
        wins[name, document["metrics"][ratio["metric"]]["title"]].append(ratio["median"])
    for (name, what), medians in wins.items():
        spread = ratio_text({"median": min(medians), "min": None, "max": None})
        spread += "" if len(medians) == 1 else f" to {ratio_text({'median': max(medians), 'min': None, 'max': None})}"
        lines.append(f"| win | `{name}` | {len(medians)} comparison{'s' * (len(medians) > 1)} | | {what} | {spread} |")
    return "\n".join(lines)


KINDS = {"fact": fact, "median": median, "ratio": ratio, "table": table, "chart": drawn, "measured": measured, "machine": machine,
         "machines": machines, "machines_of": machines_of, "outcomes": outcomes}


# ---- pages

def expanded(files, names, template, text, folder):
    """The template's text with all inserts replaced; `folder`: where the page lies."""
    bare = NO_FIGURE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for line, words in enumerate(bare.splitlines(), 1):
        if number := re.search(r"\d[\d.,]*", words):
            raise Fault(f"{DATA}/{template}:{line}: the number {number[0]} stands in no file; make it a fact")

    def replaced(match):
        kind, *arguments = match[1].split()
        if kind not in KINDS:
            raise Fault(f"{DATA}/{template}: no insert '{kind}'; expected one of {', '.join(KINDS)}")
        if kind in ("table", "chart", "measured") and arguments and arguments[0] in names and arguments[0] not in files.documents:
            return f"`./make.sh bench {arguments[0]}`: not measured yet." if kind == "measured" else ""
        try:
            inspect.signature(KINDS[kind]).bind(files, *arguments)
        except TypeError:
            raise Fault(f"{DATA}/{template}: '{match[0]}' has too many words or too few") from None
        return KINDS[kind](files, *arguments)

    place = DATA.relative_to(folder) if folder != pathlib.Path(".") else DATA
    text = INSERT.sub(replaced, text).replace("{{here}}", f"{place}/")
    return re.sub(r"\n{3,}", "\n\n", text)


def commands_of(text):
    """The benchmarks that a page says can be run."""
    return {name for words in re.findall(r"\./make\.sh bench((?: [a-z0-9_]+)+)", text) for name in words.split()} - {"list"}


def render(root, names):
    """{path: text} of all that is made."""
    files, made = Files(root), {}
    for name, document in files.documents.items():
        if name not in names and not document["once"]:
            raise Fault(f"{DATA}/{name}.json: there is no benchmark '{name}' (./make.sh bench list)")
    for template, (path, whole) in TEMPLATES.items():
        text = expanded(files, names, template, (root / DATA / template).read_text(), path.parent)
        if unknown := commands_of(text) - set(names):
            raise Fault(f"{DATA}/{template}: there is no benchmark '{min(unknown)}' (./make.sh bench list)")
        if not whole:
            page = (root / path).read_text()
            if page.count(BEGIN) != 1 or END not in page.partition(BEGIN)[2]:
                raise Fault(f"{path}: expected the lines '{BEGIN.strip()}' and '{END}' around its figures")
            before, _, rest = page.partition(BEGIN)
            text = before + BEGIN + text + rest[rest.index(END):]
        made[path] = text
    return made | files.charts


def differences(root, names):
    """Files that are not what the generator makes of the data."""
    made = render(root, names)
    for path, text in made.items():
        if not (root / path).exists() or (root / path).read_text() != text:
            yield f"{path}: not what ./make.sh bench --page makes of {DATA}"
    for path in sorted((root / DATA).glob("*.svg")):
        if path.relative_to(root) not in made:
            yield f"{path.relative_to(root)}: no page shows it"


def make(root, names):
    for path, text in render(root, names).items():
        if not (root / path).exists() or (root / path).read_text() != text:
            (root / path).write_text(text)
            print(f"made {path}")
    for finding in differences(root, names):
        path = root / finding.partition(":")[0]
        path.unlink()
        print(f"removed {path.relative_to(root)}")


def publish(root, results, names, known):
    """Copies results to where the pages come from, if the pages can be made of them."""
    found = [results / f"{name}.json" for name in names] or sorted(results.glob("*.json"))
    if not found:
        raise Fault(f"{results} has no results: ./make.sh bench makes them")
    documents = {path: form.read(path) for path in found}
    for path, document in documents.items():
        for words, why in (("--smoke", "a smoke run measures nothing"), ("--case", "it holds some cases only")):
            if words in document["command"]:
                raise Fault(f"{path}: {why}; run ./make.sh bench {path.stem}")
    before = {path: (root / DATA / path.name).read_text() if (root / DATA / path.name).exists() else None for path in found}
    for path in found:
        shutil.copy(path, root / DATA)
    try:
        make(root, known)
    except Fault:
        for path, text in before.items():
            (root / DATA / path.name).unlink() if text is None else (root / DATA / path.name).write_text(text)
        raise
    for path, document in documents.items():
        print(f"published {path.stem}: {'; '.join(document['notes']) or 'no notes'}")


def in_short(document):
    """A result for the terminal."""
    for case in document["cases"]:
        for side, values in case["summary"].items():
            figures = ", ".join(f"{document['metrics'][name]['title']} {shown(value['median'], document['metrics'][name]['unit'])}"
                                for name, value in values.items())
            yield f"{case['title']}: {case['sides'][side]}: {figures}"
        for found in case["ratios"]:
            yield (f"{case['title']}: {case['sides'][found['ours']]} / {case['sides'][found['peer']]}, "
                   f"{document['metrics'][found['metric']]['title']}: {ratio_text(found)}")
    yield from document["notes"]
