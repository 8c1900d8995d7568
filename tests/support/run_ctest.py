"""Runs one stage of the tests with CTest: progress goes to the terminal, everything else to a file.

  run_ctest.py run FOLDER STAGE CTEST_ARGUMENT...   writes FOLDER/STAGE.log and FOLDER/STAGE.xml; CTest's exit code
  run_ctest.py skipped FOLDER STAGE                 a regular expression of the tests that STAGE skipped; nothing if none
  run_ctest.py report FOLDER STAGE...               what all stages found; ends with CTest's own summary of the last one
"""
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree

RESULT = re.compile(r"^ *(\d+)/(\d+) +Test +#\d+: (\S+) \.*( +Passed|\*\*\*\S+)")
PROGRESS_EVERY_S = 30  # where the output is no terminal
SHOWN_LINES = 60  # of the output of a failed test; the log holds all of it
SLOWEST = 30


class Test:
    def __init__(self, stage, case):
        self.stage, self.name, self.seconds = stage, case.get("name"), float(case.get("time"))
        self.failed = case.get("status") == "fail"
        self.skipped = case.find("skipped") is not None
        self.output = case.findtext("system-out") or ""

    def why_skipped(self):
        """The reason a script prints behind SKIPPED, or the line GoogleTest prints below 'Skipped'."""
        match = re.search(r"^SKIPPED: *(.+)$|: Skipped\n+ *(.+)$", self.output, re.M)
        return (match[1] or match[2]).strip() if match else "no reason given"


def results(folder, stage):
    path = folder / f"{stage}.xml"
    if not path.exists():
        return []
    return [Test(stage, case) for case in xml.etree.ElementTree.parse(path).iter("testcase")]


def show_progress(lines, log):
    """Copies CTest's lines to the log; tells how far it is, and of each failure at once."""
    terminal, told = sys.stdout.isatty(), time.monotonic()
    done = total = failed = 0
    for line in lines:
        log.write(line)
        match = RESULT.match(line)
        if not match:
            continue
        done, total = int(match[1]), int(match[2])
        if not match[4].endswith(("Passed", "Skipped")):
            failed += 1
            print(f"{chr(13) if terminal else ''}  failed: {match[3]}", flush=True)
        if terminal:
            print(f"\r  {done} of {total} tests, {failed} failed ", end="", flush=True)
        elif time.monotonic() - told > PROGRESS_EVERY_S:
            told = time.monotonic()
            print(f"  {done} of {total} tests, {failed} failed", flush=True)
    print(f"{chr(13) if terminal else ''}  {done} of {total} tests, {failed} failed ", flush=True)


def run(folder, stage, arguments):
    folder.mkdir(parents=True, exist_ok=True)
    junit = folder / f"{stage}.xml"
    junit.unlink(missing_ok=True)
    command = ["ctest", *arguments, "--no-tests=error", "--output-junit", str(junit.resolve())]
    with open(folder / f"{stage}.log", "w", errors="replace") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        show_progress(process.stdout, log)
        code = process.wait()
    failed = [test for test in results(folder, stage) if test.failed]
    for test in failed:
        print(f"\n--- {test.name}")
        print("\n".join(test.output.splitlines()[-SHOWN_LINES:]))
    if code and not failed:
        print((folder / f"{stage}.log").read_text()[-4000:])
    return code


def skipped(folder, stage):
    names = [re.escape(test.name) for test in results(folder, stage) if test.skipped]
    if names:
        print(f"^({'|'.join(names)})$")
    return 0


def last_verdicts(folder, stages):
    """{test: its result}; a later stage's word replaces that of an earlier one that skipped it."""
    verdicts = {}
    for stage in stages:
        for test in results(folder, stage):
            known = verdicts.get(test.name)
            if known is None or known.skipped or test.failed:
                verdicts[test.name] = test
    return verdicts


def report(folder, stages):
    tests = list(last_verdicts(folder, stages).values())
    print(f"\n==> the {SLOWEST} slowest tests, in seconds")
    every = [test for stage in stages for test in results(folder, stage)]
    for test in sorted(every, key=lambda test: -test.seconds)[:SLOWEST]:
        print(f"{test.seconds:8.1f}  {test.name} ({test.stage})")
    reasons = {}
    for test in tests:
        if test.skipped:
            reasons.setdefault(test.why_skipped(), []).append(test.name)
    if reasons:
        print("\n==> skipped, and why")
    for why, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        shown = ", ".join(sorted(names)[:4]) + (", ..." if len(names) > 4 else "")
        print(f"{len(names):5}  {why}: {shown}")
    failed = [test for test in tests if test.failed]
    for test in failed:
        print(f"FAILED  {test.name} ({test.stage}; {folder / test.stage}.log)")
    held = sum(not test.failed and not test.skipped for test in tests)
    print(f"\n==> {held} tests passed, {len(failed)} failed, {len(tests) - held - len(failed)} were skipped; "
          f"all output is in {folder}/*.log. CTest's summary of its last stage, '{stages[-1]}':\n")
    log = folder / f"{stages[-1]}.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    print(text[text.rfind("\n", 0, text.rfind("% tests passed")) + 1:].rstrip())
    return 1 if failed else 0


def main():
    command, folder, *rest = sys.argv[1:]
    folder = pathlib.Path(folder)
    if command == "run":
        sys.exit(run(folder, rest[0], rest[1:]))
    sys.exit({"skipped": lambda: skipped(folder, rest[0]), "report": lambda: report(folder, rest)}[command]())


if __name__ == "__main__":
    main()
