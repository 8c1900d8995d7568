"""What the steps of device.py stand on: the machine, its environment, programs that end in time, and runs of Echelon."""
import ctypes
import importlib.util
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time


class Skipped(Exception):
    """The step cannot be tried here."""


class Failed(Exception):
    def __init__(self, why, facts=None):
        super().__init__(why)
        self.facts = facts or {}


class Unfinished(Failed):
    """The time of the stage was over; the next start goes on with what is missing."""


def libraries_of_torch():
    """Folders of torch's libraries and of those it depends on."""
    spec = importlib.util.find_spec("torch")
    if spec is None:
        sys.exit(f"device.sh: {sys.executable} has no torch; name another Python in PYTHON")
    torch = pathlib.Path(spec.origin).parent
    return [torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]


class Machine:
    """Where the steps run. Not for several threads."""

    def __init__(self, bundle, results, trial):
        self.bundle = bundle
        self.trial = trial
        self.deadline = float("inf")      # of the step
        self.cut_by_stage = False         # the deadline is that of the stage, not of the step
        self.known = {}                   # facts of the step from an earlier start
        self.echelon = bundle / "bin/echelon"
        self.ckpt = bundle / "bin/echelon-ckpt"
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="echelon-device-"))
        self._log = open(results / "log.txt", "a", encoding="utf-8", errors="replace")
        self.environment = self._environment()
        found = self._device_found()
        self.gpu = found["gpu"]
        self.no_device = found["why"]     # why torch finds none; empty: it finds one
        self.has_fp8 = trial or found["capability"] >= [8, 9]  # products in fp8

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._log.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def log(self, text):
        self._log.write(text)
        self._log.flush()

    def _environment(self):
        libraries = [self.bundle / "lib", *libraries_of_torch()]
        # Behind ours those of the machine: its driver may be found in no other way.
        libraries += filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
        environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, libraries))}
        mpi = self.bundle / "mpi"
        if mpi.exists():
            environment.update(
                PATH=f"{mpi}/bin:{os.environ['PATH']}", OPAL_PREFIX=str(mpi), OPAL_PKGLIBDIR=str(mpi / "plugins"),
                OPAL_LIBDIR=str(self.bundle / "lib"), OPAL_PKGDATADIR=str(mpi / "data"), PMIX_PKGLIBDIR=str(mpi / "pmix"),
                OMPI_MCA_plm="isolated",  # no ssh
                OMPI_MCA_mca_base_component_show_load_errors="0", PMIX_MCA_mca_base_component_show_load_errors="0")
        return environment

    def _device_found(self):
        ask = ("import json, torch\ngpu, why, capability = '', '', (0, 0)\n"
               "try:\n torch.cuda.init(); gpu = torch.cuda.get_device_name(0); capability = torch.cuda.get_device_capability()\n"
               "except Exception as e: why = str(e).split('. ')[0].split('\\n')[0] or type(e).__name__\n"
               "print(json.dumps({'gpu': gpu, 'why': why, 'capability': capability}))")
        return json.loads(self.run([sys.executable, "-c", ask], plain=True).stdout.splitlines()[-1])

    def left_s(self):
        return self.deadline - time.monotonic()

    def late(self, why):
        """What to raise when the time is over."""
        return Unfinished("the time of the stage was over") if self.cut_by_stage else Failed(why)

    def for_each(self, items, run):
        """{name: run(item)} for items that an earlier start has not got good results of. One that fails is noted, and the
        others go on. A trial takes every third one."""
        if self.trial:
            items = dict(list(items.items())[::3])
        found = {name: value for name, value in self.known.items() if name in items and not failure_of(value)}
        for name, item in items.items():
            if name in found:
                continue
            try:
                if self.left_s() <= 0:
                    raise self.late("its time was over")
                found[name] = run(item)
            except Unfinished as why:
                raise Unfinished(f"{why}; {len(found)} of {len(items)} are done", found) from None
            except Failed as why:
                found[name] = {"failed": str(why), **why.facts}
        failed = [name for name, value in found.items() if failure_of(value)]
        if failed:
            raise Failed(f"{len(failed)} of {len(items)} failed: {', '.join(failed)[:200]}: {failure_of(found[failed[0]])}", found)
        return found

    def need_device(self):
        if self.no_device and not self.trial:
            raise Skipped(f"no device: {self.no_device}")

    @property
    def device(self):
        """train.device of runs."""
        return "cpu" if self.trial else "cuda"

    def run(self, words, code=0, plain=False, extra=None, cwd=None):
        """Runs a program until the step's deadline. `code` is what it must exit with; None: anything. `plain`: without
        the libraries of the bundle."""
        words = [str(word) for word in words]
        self.log(f"$ {' '.join(words)}\n")
        environment = {**(os.environ if plain else self.environment), **(extra or {})}
        job = subprocess.Popen(words, env=environment, cwd=cwd or self.scratch, stdin=subprocess.DEVNULL, text=True,
                               errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                               preexec_fn=die_with_parent)
        try:
            out, err = job.communicate(timeout=max(self.left_s(), 1) if self.deadline < 1e18 else None)
        except subprocess.TimeoutExpired:
            end(job)
            out, err = job.communicate()
            self.log(f"{out}{err}\n[ended: its time was over]\n")
            raise self.late(f"{pathlib.Path(words[0]).name} was not done in time; it said: {last_line(err or out)}") from None
        self.log(f"{out}{err}[exit {job.returncode}]\n")
        if code is not None and job.returncode != code:
            raise Failed(f"{pathlib.Path(words[0]).name} ended with {job.returncode}, not {code}: {last_line(err or out)}")
        return subprocess.CompletedProcess(words, job.returncode, out, err)

    def python_json(self, script, *arguments, extra=None):
        """The last line, as JSON, of a script beside this file."""
        path = pathlib.Path(__file__).with_name(script)
        return json.loads(self.run([sys.executable, "-B", path, *arguments], plain=True, extra=extra).stdout.splitlines()[-1])

    def train(self, recipe, folder, *overrides, ranks=1, device=None, code=0):
        """Trains to the end in scratch/`folder`; the lines of metrics.jsonl."""
        where = ["--ranks", ranks] if ranks > 1 else []
        self.run([self.echelon, "train", recipe, *where, f"run.dir={folder}", f"train.device={device or self.device}",
                  "metrics.every_steps=1", *overrides], code=code)
        return self.metrics(folder)

    def train_until(self, step, recipe, folder, *overrides, with_signal=signal.SIGKILL, extra=None):
        """Trains until a line of `step` is there, then ends the run with a signal; the lines of metrics.jsonl."""
        words = [str(word) for word in [self.echelon, "train", recipe, f"run.dir={folder}", f"train.device={self.device}",
                                        "metrics.every_steps=1", *overrides]]
        self.log(f"$ {' '.join(words)}   [until step {step}]\n")
        with tempfile.TemporaryFile("w+") as said:
            job = subprocess.Popen(words, env={**self.environment, **(extra or {})}, cwd=self.scratch, stdin=subprocess.DEVNULL, stdout=said,
                                   stderr=said, start_new_session=True, preexec_fn=die_with_parent)
            try:
                while job.poll() is None and time.monotonic() < self.deadline:
                    if any(line["step"] >= step for line in self.metrics(folder)):
                        break
                    time.sleep(0.02)
            finally:
                end(job, with_signal)
            said.seek(0)
            text = said.read()
        self.log(text)
        lines = self.metrics(folder)
        if not lines or lines[-1]["step"] < step:
            if self.left_s() <= 0:
                raise self.late(f"the run did not come to step {step} in time")
            raise Failed(f"the run did not come to step {step}: {last_line(text)}")
        return lines

    def metrics(self, folder):
        path = self.scratch / folder / "metrics.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def die_with_parent():
    """In a child: SIGKILL when this program goes, whoever ends it; what is left over would disturb the next start."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def failure_of(value):
    return value.get("failed", "") if isinstance(value, dict) else ""


def end(job, with_signal=signal.SIGKILL):
    """Ends a job that leads a session of its own, with its children."""
    try:
        os.killpg(job.pid, with_signal)
    except ProcessLookupError:
        pass
    job.wait()


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing"


def losses(lines):
    return {line["step"]: line["loss"] for line in lines}


def largest_difference(some, others):
    """Largest relative difference of the losses of steps that both have."""
    mine, theirs = losses(some), losses(others)
    common = mine.keys() & theirs.keys()
    if not common:
        raise Failed("no step has a loss in both runs")
    differences = [abs(mine[step] - theirs[step]) / max(abs(theirs[step]), 1e-12) for step in common]
    if not all(map(math.isfinite, differences)):
        raise Failed("a loss is not finite")
    return max(differences)
