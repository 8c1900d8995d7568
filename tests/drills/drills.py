"""Runs drills on the local cluster and shows a row for each; --record writes the table of docs/drills.md.

usage: ./make.sh drills [--record] [NAME...]     every drill, or those named; `list` names them

The table has the newest row of each drill that ever ran, those included that were not met. Rows of another day than the
table's say so.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import sys
import time
import traceback

import deaths
import hangs
import random_kills
import slurm
import stops

GROUPS = [stops, deaths, hangs, random_kills]
DRILLS = {drill.__name__: drill for group in GROUPS for drill in group.DRILLS}
TABLE = slurm.ROOT / "docs/drills.md"
BEGIN, END = "<!-- table: made by ./make.sh drills --record -->", "<!-- end of table -->"


def run(name, work, untimed=False):
    began = time.time()
    row = {"drill": name, "what": DRILLS[name].__doc__.strip()}
    try:
        row.update(DRILLS[name](work))
        late = [f"late: {what} after {row[took]} s, the deadline is {row[limit]} s"
                for what, took, limit in (("noticed", "detect_s", "deadline_s"), ("back", "back_s", "back_deadline_s"))
                if row.get(limit) and took in row and row[took] > row[limit]]
        row["result"] = "ok" if untimed else "; ".join(late) or "ok"
    except slurm.Failure as failure:
        row["result"] = f"failed: {failure}"
    except Exception:
        row["result"] = f"failed: {traceback.format_exc()}"
    finally:
        for job in slurm.call("squeue", "--noheader", "--format=%A").split():
            slurm.call("scancel", job, check=False)
        slurm.restore_all()
        slurm.wait_for("an empty queue", 120, lambda: not slurm.call("squeue", "--noheader"))
    row["took_s"] = round(time.time() - began, 1)
    return row


def shown(value, unit=""):
    return "-" if value is None else f"{value}{unit}"


def phases(row):
    return ", ".join(f"{name} {seconds}" for name, seconds in row.get("phases", {}).items()) or "-"


def table(rows):
    yield "| drill | what happens | noticed after | deadline | lost steps | restart | back after | seconds by phase | what the log said |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        said = row.get("said", "-").replace("|", "\\|")
        said = re.sub(r"/\S*/(?=checkpoints/|logs/)", "", said)
        if row["result"] != "ok":
            said = "**not met**: " + row["result"].split(";")[0].splitlines()[0].replace("|", "\\|")
        yield (f"| {row['drill']} | {row['what']} | {shown(row.get('detect_s'), ' s')} | {shown(row.get('deadline_s'), ' s')} | "
               f"{row.get('lost_steps', '-')} | {shown(row.get('restart_s'), ' s')} | {shown(row.get('back_s'), ' s')} | "
               f"{phases(row)} | {said} |")


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    return f"{os.cpu_count()} cores of {model}, {slurm.call('scontrol', '--version').strip()}, {datetime.date.today()}"


def earlier_rows(text):
    """{drill: row} of the table so far, each with its day."""
    day = re.search(r"^Measured on .*(\d{4}-\d\d-\d\d)\.$", text, re.M)
    found = {}
    for name, dated, rest in re.findall(r"^\| ([a-z0-9_]+)( \(\d{4}[^|]*\))? (\|.*\|)$", text, re.M):
        found[name] = f"| {name}{dated or f' ({day[1]})'} {rest}"
    return found


def record(rows):
    """Writes the rows, by name; others stay."""
    text = TABLE.read_text()
    before, rest = text.split(BEGIN)
    earlier, after = rest.split(END)
    kept = earlier_rows(earlier)
    head, rule, *lines = table(list(rows.values()))
    made = dict(zip(rows, lines))
    lines = [made.get(name) or kept.get(name) for name in DRILLS]
    TABLE.write_text("\n".join([before + BEGIN, f"Measured on {machine()}.", "", head, rule, *filter(None, lines), END]) + after)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--untimed", action="store_true", help="deadlines may be missed: the machine is busy")
    parser.add_argument("--work", type=pathlib.Path, default=slurm.ROOT / "build/release/drills")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    if options.names == ["list"]:
        print(*(f"{name:24}{drill.__doc__.strip()}" for name, drill in DRILLS.items()), sep="\n")
        return
    unknown = [name for name in options.names if name not in DRILLS]
    if unknown:
        parser.error(f"no drill '{unknown[0]}'; expected some of: {', '.join(DRILLS)}")
    options.work.mkdir(parents=True, exist_ok=True)
    results = options.work / "results.jsonl"
    rows = {}
    if results.exists():
        rows = {row["drill"]: row for row in map(json.loads, results.read_text().splitlines())}
    failed = []
    for name in options.names or DRILLS:
        row = run(name, options.work, options.untimed)
        rows[name] = row
        results.write_text("".join(json.dumps(rows[name]) + "\n" for name in DRILLS if name in rows))
        print(json.dumps(row), flush=True)
        if row["result"] != "ok":
            failed.append(name)
            print(row["result"], file=sys.stderr, flush=True)
    if options.record:
        record({name: rows[name] for name in DRILLS if name in rows})
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
