"""Runs one benchmark: starts its programs, keeps what they measured in the one form (form.py), and writes the file after
every round, so that what is interrupted stands."""
import contextlib
import ctypes
import json
import os
import pathlib
import shlex
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

import form
import machine

ROOT = machine.ROOT
PR_SET_CHILD_SUBREAPER = 36
WAIT_S = 1800  # longest wait for a program
REAP_S = 30


class Failed(Exception):
    """A program of a benchmark failed: what it said."""


class LeftOut(Exception):
    """This machine cannot run the benchmark: why."""


class Case:
    def __init__(self, bench, fields):
        self.bench, self.fields = bench, fields
        self.current = None  # the values of the round that runs
        self.failed = set()  # peers that are left out from then on

    def measure(self, side, function, *arguments):
        """Calls the function, which returns {metric: value}; the commands it starts are the side's. A peer that fails
        is left out, and a note says so; a failure of Echelon's ends the benchmark."""
        if side not in self.fields["sides"]:
            raise KeyError(f"case '{self.fields['name']}' has no side '{side}'")
        if side in self.failed:
            return
        try:
            with self.bench.commands_of(self, side):
                self.add(side, **function(*arguments))
        except Failed as failure:
            if side in self.fields["ours"] or not self.fields["ours"]:
                raise
            self.failed.add(side)
            reason = str(failure).strip().splitlines()[-1][:200]
            self.bench.notes.append(f"{self.fields['title']}: {self.fields['sides'][side]} failed and is left out: {reason}")
            print(f"  {self.bench.notes[-1]}", flush=True)

    def add(self, side, **values):
        """Keeps what was measured in the round that runs, except when it only warms up."""
        if self.bench.counted:
            if self.current is None:
                self.current = {}
                self.fields["rounds"].append(self.current)
            self.current[side] = values

    def values(self, side, metric):
        return [values[side][metric] for values in self.fields["rounds"] if side in values]

    def median(self, side, metric):
        return statistics.median(self.values(side, metric))


class Bench:
    """What a benchmark's run() gets."""

    def __init__(self, name, what, options):
        self.name, self.options = name, options
        self.echelon, self.tool = options.echelon, options.echelon.with_name("echelon-ckpt")
        self.path = options.output / f"{name}.json"
        self.counted, self.side = True, None
        self.notes, self.cases, self.metrics = [], [], {}
        flags = ["" if options.mode == "full" else f" --{options.mode}", f" --rounds {options.rounds}" if options.rounds else "",
                 *(f" --case {case}" for case in options.cases or ()),
                 *(f" --{peer} {python}" for peer in ("deepspeed", "datasets") if (python := getattr(options, peer)))]
        self.document = {
            "schema": form.SCHEMA, "name": name, "what": what, "measured": form.now(), "transcribed": False, "once": False,
            "complete": False, "mode": options.mode, "machine": machine.describe(),
            "versions": machine.versions(self.echelon) | options.more_versions, **machine.commit(),
            "command": f"./make.sh bench {name}{''.join(flags)}", "facts": {}, "notes": [], "metrics": self.metrics,
            "layout": "rows", "compares": True, "cases": []}
        # Ranks whose launcher was killed are still waited for, which counts their processor time as ours.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    # -- what is measured

    def metric(self, name, title, unit, better="lower"):
        self.metrics[name] = {"title": title, "unit": unit, "better": better}

    def fact(self, name, value, unit, what):
        self.document["facts"][name] = {"value": value, "unit": unit, "what": what}

    def lay_out(self, layout, compares=True):
        self.document.update(layout=layout, compares=compares)

    def case(self, name, title, sides, ours=("echelon",), bounds=()):
        case = Case(self, {"name": name, "title": title, "ours": list(ours), "bounds": list(bounds), "sides": dict(sides), "commands": {},
                           "rounds": [], "others_cores": [], "summary": {}, "ratios": []})
        self.cases.append(case)
        return case

    def wanted(self, *names):
        """Those of the named cases that this run takes: `--case`, or one in a smoke run."""
        if unknown := set(self.options.cases or ()) - set(names):
            raise SystemExit(f"{self.name} has no case '{min(unknown)}'; expected some of: {', '.join(names)}")
        chosen = [name for name in names if name in self.options.cases] if self.options.cases else list(names)
        return chosen[:1] if self.options.mode == "smoke" else chosen

    def pick(self, full, quick, smoke):
        """Whichever of these belongs to how this benchmark runs."""
        return {"full": full, "quick": quick, "smoke": smoke}[self.options.mode]

    def rounds(self, full, quick=1, warm_up=0, cases=None):
        """Numbers of rounds; the file is written after each. `cases` (default: the last) take part."""
        cases = self.cases[-1:] if cases is None else cases
        count = self.options.rounds or self.pick(full, quick, 1)
        for number in range(self.pick(-warm_up, -warm_up, 0), count):
            self.counted = number >= 0
            others = machine.Others()
            yield number
            self.reap()
            for case in cases:
                if case.current is not None:
                    case.fields["others_cores"].append(others.cores())
                    case.current = None
            if self.counted:
                self.write()
                print(f"  {cases[0].fields['name'] if len(cases) == 1 else self.name}: round {number + 1} of {count}", flush=True)
        self.counted = True

    def write(self, complete=False):
        most = max((cores for case in self.cases for cores in case.fields["others_cores"]), default=0)
        notes = list(self.notes)
        if most > form.BUSY_CORES:
            notes.append(f"other programs used up to {most:.1f} of {self.document['machine']['cores']} cores while it measured")
        self.document.update(complete=complete, notes=notes, cases=[case.fields for case in self.cases if case.fields["rounds"]])
        form.write(self.path, self.document)

    # -- programs

    @contextlib.contextmanager
    def built_as(self, echelon):
        """Another build of the program, for a while."""
        self.echelon, ours = echelon, self.echelon
        try:
            yield
        finally:
            self.echelon = ours

    @contextlib.contextmanager
    def commands_of(self, case, side):
        self.side = case.fields["commands"].setdefault(side, [])
        try:
            yield
        finally:
            self.side = None

    @contextlib.contextmanager
    def scratch(self):
        """A folder on the disk of the build."""
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix="scratch-", ignore_cleanup_errors=True) as folder:
            try:
                yield pathlib.Path(folder)
            finally:
                self.reap()  # ranks whose launcher was killed still write there

    def text(self, command, environment=None):
        """A command as it can be repeated; $SCRATCH is a folder of its own."""
        words = [f"{name}={value}" for name, value in (environment or {}).items()] + [str(word) for word in command]
        text = shlex.join(words).replace(f"{ROOT}/", "")
        for folder in self.path.parent.glob("scratch-*"):
            text = text.replace(str(folder).replace(f"{ROOT}/", ""), "$SCRATCH")
        return text

    def note(self, command, environment):
        text = self.text(command, environment)
        if self.side is not None and text not in self.side and len(self.side) < 8:
            self.side.append(text)

    def start(self, command, environment=None, **how):
        """A program that goes on; whoever starts it ends it."""
        self.note(command, environment or {})
        return subprocess.Popen([str(word) for word in command], env=environment_with(environment), cwd=ROOT, **how)

    def run(self, command, environment=None):
        """What a program prints. One that fails ends the benchmark, with the end of what it said."""
        with tempfile.TemporaryFile("w+") as errors:
            job = self.start(command, environment, stdout=subprocess.PIPE, stderr=errors, text=True)
            try:
                output, _ = job.communicate(timeout=WAIT_S)
            except subprocess.TimeoutExpired:
                raise Failed(f"{shlex.join(map(str, command))} took more than {WAIT_S} s") from None
            finally:
                job.kill()
                job.wait()
            if job.returncode:
                raise Failed(f"{shlex.join(map(str, command))} ended with {job.returncode}: {read_from(errors)[-2000:]}{output[-500:]}")
        return output

    def json_lines(self, command, environment=None):
        return [json.loads(line) for line in self.run(command, environment).splitlines() if line.startswith("{")]

    def on_all_ranks(self, ranks, command, environment=None):
        """Starts a command once a rank, as torchrun does; the last line of each, as JSON."""
        command = [str(word) for word in command]
        common = {**(environment or {}), "WORLD_SIZE": ranks}
        self.note([f"RANK=0..{ranks - 1}", *command], common)
        common = environment_with({**common, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()})
        with contextlib.ExitStack() as files:
            outputs = [files.enter_context(tempfile.TemporaryFile("w+")) for _ in range(ranks)]
            errors = files.enter_context(tempfile.TemporaryFile("w+"))
            jobs = [subprocess.Popen(command, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, cwd=ROOT,
                                     stdout=outputs[rank], stderr=errors) for rank in range(ranks)]
            try:
                ended = wait_for_all(jobs)
            finally:
                for job in jobs:
                    job.kill()
                    job.wait()
            if not ended:
                raise Failed(f"{shlex.join(command)} failed or took more than {WAIT_S} s:\n{read_from(errors)[-3000:]}")
            said = [read_from(output) for output in outputs]
        return [json.loads(text.splitlines()[-1]) if text.strip() else None for text in said]

    def program(self, target):
        """A benchmark's own program, built if it is not."""
        build = self.echelon.parent.parent
        self.run(["cmake", "--build", build, "--target", target])
        found = next((path for path in build.rglob(target) if path.is_file() and os.access(path, os.X_OK)), None)
        if not found:
            raise Failed(f"{build} has no program '{target}' after it was built")
        return found

    @property
    def mpirun(self):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        memory = "vader" if self.document["versions"].get("Open MPI", "").startswith("4.") else "sm"
        return ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", f"self,{memory}"]

    def reap(self):
        """Waits for descendants whose parents have ended, which are ours now, and have ended or soon do."""
        deadline = time.monotonic() + REAP_S
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < deadline:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.05)


def wait_for_all(jobs):
    """Whether all ended well. When one fails the others would wait for it: they are not waited for."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        codes = [job.poll() for job in jobs]
        if any(codes) or None not in codes:
            return not any(codes)
        time.sleep(0.02)
    return False


def read_from(file):
    file.seek(0)
    return file.read()


def environment_with(more):
    return {**os.environ, **{name: str(value) for name, value in (more or {}).items()}}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def remove(path):
    """Also what the disk still has to do for it: it would be charged to whatever is measured next."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    os.sync()
