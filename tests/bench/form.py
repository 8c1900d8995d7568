"""The one form of a benchmark's result, and what keeps files in it. A file is one JSON object:

  schema        1
  name, what    of the benchmark (`./make.sh bench list`)
  measured      the day, YYYY-MM-DD, and for figures of this program the time too
  transcribed   true: the figures were copied from an earlier page; samples are not known, fields may be null
  once          true: no command of today repeats this
  complete      false: interrupted; the rounds so far stand
  mode          full, quick (fewer rounds) or smoke (one round of something small: never published)
  machine       cpu, cores, memory_gib, instruction_sets, virtual, kernel, os
  versions      {program or package: version}: compiler, libtorch, MPI, HDF5 and every peer
  commit, dirty the source, and whether it was changed (documents apart)
  command       what repeats it
  facts         {name: {value, unit, what}}: sizes that were chosen, and what follows from the figures
  notes         [text]: what a reader must know of the circumstances
  metrics       {name: {title, unit, better}}; better: lower, higher, or null for what is not compared
  layout        rows or columns: how the page lays the sides out
  compares      true: sides are rivals, and the page lists who wins
  cases         [{name, title, ours, bounds, sides, commands, rounds, others_cores, summary, ratios}]
    sides         {name: title}; `ours` names those that are Echelon's, `bounds` those that are no rival but a limit, such
                  as the raw speed of the disk
    commands      {side: [exact command]}; $SCRATCH is a folder of its own
    rounds        [{side: {metric: value}}], sides in turn within a round; values in seconds, bytes, or per second
    others_cores  [cores that other programs used during a round, on average]
    summary       {side: {metric: {median, min, max}}}
    ratios        [{ours, peer, metric, median, min, max, pairs}]: how many times better Echelon is, round by round:
                  above 1 it wins, below 1 it loses
"""
import datetime
import itertools
import json
import os
import pathlib
import re
import statistics

SCHEMA = 1
MODES = ("full", "quick", "smoke")
UNITS = ("s", "bytes", "tokens/s", "flop/s", "share", "ratio", "count", "")
FIELDS = {"schema": int, "name": str, "what": str, "measured": str, "transcribed": bool, "once": bool, "complete": bool,
          "mode": str, "machine": dict, "versions": dict, "commit": (str, type(None)), "dirty": (bool, type(None)),
          "command": str, "facts": dict, "notes": list, "metrics": dict, "layout": str, "compares": bool, "cases": list}
CASE_FIELDS = {"name": str, "title": str, "ours": list, "bounds": list, "sides": dict, "commands": dict, "rounds": list,
               "others_cores": list, "summary": dict, "ratios": list}
BUSY_CORES = 0.1  # of other programs: from here on the file says so


def spread(values):
    return rounded({"median": statistics.median(values), "min": min(values), "max": max(values)})


def summary_of(case):
    found = {}
    for side in case["sides"]:
        taken = [values[side] for values in case["rounds"] if side in values]
        names = dict.fromkeys(name for values in taken for name in values)
        found[side] = {name: spread([values[name] for values in taken if name in values]) for name in names}
    return {side: values for side, values in found.items() if values}


def ratios_of(case, metrics):
    found = []
    peers = [side for side in case["sides"] if side not in case["ours"]]
    for ours, peer, (name, metric) in itertools.product(case["ours"], peers, metrics.items()):
        both = [(r[ours][name], r[peer][name]) for r in case["rounds"] if name in r.get(ours, {}) and name in r.get(peer, {})]
        if not metric["better"] or not both:
            continue
        pairs = [theirs / mine if metric["better"] == "lower" else mine / theirs for mine, theirs in both if mine and theirs]
        if pairs:
            found.append({"ours": ours, "peer": peer, "metric": name, **spread(pairs), "pairs": rounded(pairs)})
    return found


def wrong_fields(what, found, expected):
    for name in found.keys() - expected.keys():
        yield f"{what} has no field '{name}'"
    for name, kind in expected.items():
        if name not in found:
            yield f"{what} lacks '{name}'"
        elif not isinstance(found[name], kind):
            yield f"{what}: '{name}' is a {type(found[name]).__name__}"


def faults_of_case(case, document):
    if faults := list(wrong_fields(f"case '{case.get('name')}'", case, CASE_FIELDS)):
        yield from faults
        return
    where = f"case '{case['name']}'"
    if unknown := set(case["ours"] + case["bounds"]) - set(case["sides"]):
        yield f"{where}: no side '{min(unknown)}'"
    for values in (*case["rounds"], case["summary"]):
        for side, metrics in values.items():
            if side not in case["sides"]:
                yield f"{where}: no side '{side}'"
            if unknown := set(metrics) - set(document["metrics"]):
                yield f"{where}: no metric '{min(unknown)}'"
    if document["transcribed"]:
        return
    if not case["rounds"]:
        yield f"{where} has no rounds"
    elif case["summary"] != summary_of(case):
        yield f"{where}: the summary is not what follows from the rounds"
    elif case["ratios"] != ratios_of(case, document["metrics"]):
        yield f"{where}: the ratios are not what follows from the rounds"
    for side in case["summary"]:
        if not case["commands"].get(side):
            yield f"{where}: side '{side}' has no command"


def faults(document):
    """What is wrong with a document, one line each."""
    if not isinstance(document, dict):
        return ["not a JSON object"]
    if found := list(wrong_fields("the document", document, FIELDS)):
        return found
    if document["schema"] != SCHEMA:
        found.append(f"schema {document['schema']}, expected {SCHEMA}")
    if document["mode"] not in MODES:
        found.append(f"mode '{document['mode']}', expected one of {', '.join(MODES)}")
    if not re.match(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?$", document["measured"]):
        found.append(f"measured '{document['measured']}', expected YYYY-MM-DD or YYYY-MM-DDTHH:MM:SSZ")
    for name, metric in document["metrics"].items():
        if set(metric) != {"title", "unit", "better"} or metric["unit"] not in UNITS or metric["better"] not in ("lower", "higher", None):
            found.append(f"metric '{name}' needs title, unit ({', '.join(UNITS[:-1])} or nothing) and better")
    if not document["transcribed"] and not document["commit"]:
        found.append("no commit")
    names = [case.get("name") for case in document["cases"]]
    found += [f"two cases are named '{name}'" for name in set(names) if names.count(name) > 1]
    for case in document["cases"]:
        found += faults_of_case(case, document)
    return found


def read(path):
    """The document in a file; SystemExit says what is wrong with it."""
    path = pathlib.Path(path)
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path}: {error}")
    if found := faults(document):
        raise SystemExit(f"{path}: {found[0]}" + (f" ({len(found) - 1} more faults)" if found[1:] else ""))
    if document["name"] != path.stem:
        raise SystemExit(f"{path}: it holds the benchmark '{document['name']}'")
    return document


def rounded(value):
    """Six significant digits: more are noise, and files stay small."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list) else value


def write(path, document):
    """In full or not at all. Summaries and ratios are made here, from the rounds."""
    for case in document["cases"]:
        case["rounds"] = rounded(case["rounds"])
        if not document["transcribed"]:
            case["summary"] = summary_of(case)
            case["ratios"] = ratios_of(case, document["metrics"])
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(compact(document) + "\n")
    os.replace(new, path)


def compact(value, indent=""):
    """JSON whose lines hold what belongs together: an object or list that fits a line stays on it."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= 118 or not isinstance(value, (dict, list)) or not value:
        return line
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(name, ensure_ascii=False)}: {compact(part, inner)}" for name, part in value.items()]
        return "{\n" + ",\n".join(inner + part for part in parts) + "\n" + indent + "}"
    return "[\n" + ",\n".join(inner + compact(part, inner) for part in value) + "\n" + indent + "]"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
