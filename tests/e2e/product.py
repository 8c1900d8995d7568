"""What the end-to-end tests share: the product's two commands, tiny recipes, run folders, signals.

Every test is a method test_* of the class `Tests` of a script, works in a folder of its own and is its own CTest entry
(CMakeLists.txt). By hand: ECHELON_BIN=... ECHELON_CKPT_BIN=... python3 tests/e2e/resume.py Tests.test_...
"""
import itertools
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import golden

ECHELON = os.environ["ECHELON_BIN"]
CKPT = os.environ["ECHELON_CKPT_BIN"]
PROGRESS = re.compile(r"^(starting|start: |echelon [\d.]+: run |model |data: |resumed from |step \d+/|saved step |stopped after |"
                      r"stopped during |stopping after |goodput |complete: |checkpoints are copied to |consolidating |weights of '|reading a sample|reading \d+ files? as |training the tokenizer|tokenizing|"
                      r"  +(root|model\.|lm_head)|gradients are reduced |memory of this rank: |predicted and measured: |around \d+ passes |memory of the process before )")
WAIT_S = 250  # longest wait for anything; the machine may be busy
ERRORS = (2, 3, 4, 5, 6, 7)
SKIPPED = 77  # CTest knows this exit code (CMakeLists.txt)
OWN_MOUNTS = "ECHELON_OWN_MOUNTS"  # empty: this process is in a mount namespace of its own; else why it is not
TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "tests/support"))
SCRIPT = pathlib.Path(sys.argv[0]).stem
GOLDEN = TOP / "tests" / "golden" / "e2e" / f"{SCRIPT}.txt"

# Starts ranks plainly, which talk through shared memory: a machine's networks are not looked at. The mpirun of Open MPI 5
# has no option to be quiet, and is so unless a rank fails.
OPEN_MPI_4 = "(Open MPI) 4." in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
MPIRUN = ["mpirun", *(["-q"] if OPEN_MPI_4 else []), "--oversubscribe", "--allow-run-as-root", "--bind-to", "none",
          "--mca", "pml", "ob1", "--mca", "btl", "self,vader" if OPEN_MPI_4 else "self,sm"]

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau".split()
# What a recipe needs to train on the files of Case.prepare().
ON_TOKENS = {"data.kind": "tokens", "data.path": "data/train.tok", "model.vocab_size": 320, "train.steps": 4}

# Sizes that no number of ranks divides: slice borders cut parameters anywhere.
TINY = {
    "run.dir": "run", "run.seed": 7,
    "model.vocab_size": 251, "model.hidden_size": 40, "model.intermediate_size": 88, "model.layers": 3,
    "model.heads": 5, "model.kv_heads": 1, "model.max_positions": 32,
    "precision.param": "fp32", "precision.buffer": "fp32",
    "data.kind": "synthetic_tokens", "data.seq_len": 16,
    "optim.lr": 3e-3, "schedule.kind": "warmup_cosine", "schedule.warmup_steps": 3, "schedule.min_lr": 1e-4,
    "train.device": "cpu", "train.steps": 20, "train.micro_batch_size": 1, "train.global_batch_size": 12,
    "train.threads_per_rank": 1,
    "checkpoint.every_steps": 0, "checkpoint.keep_last": 0, "metrics.every_steps": 1,
}

# The same rate in every step; TINY warms up and decays.
CONSTANT = {"schedule.kind": "constant", "schedule.warmup_steps": 0, "schedule.min_lr": 0}
ALWAYS_CONSTANT = [f"{key}={value}" for key, value in CONSTANT.items()]


def recipe_text(**overrides):
    """TINY as YAML with some keys replaced: **{"train.steps": 5}."""
    return yaml_text({**TINY, **overrides})


def yaml_text(keys):
    """{"train.steps": 5} as the text of a recipe."""
    sections = {}
    for key, value in keys.items():
        *path, name = key.split(".")
        section = sections
        for part in path:
            section = section.setdefault(part, {})
        section[name] = value
    return "\n".join(_yaml(sections, "")) + "\n"


def _yaml(section, indent):
    for name, value in section.items():
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _yaml(value, indent + "  ")
        else:
            yield f"{indent}{name}: {str(value).lower() if isinstance(value, bool) else value}"


class Result:
    """A finished command."""

    def __init__(self, command, code, out, err):
        self.command, self.code, self.out, self.err = command, code, out, err

    def __str__(self):
        return f"{' '.join(map(str, self.command))}\nexit {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"


def environment(**more):
    """This process's environment without what would make the product believe to be part of a larger job."""
    outside = ("SLURM_", "PMIX_", "PMI_", "OMPI_", "ECHELON_PROGRESS", "ECHELON_START_TOLD", "OMP_", "GOMP_")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(outside)}, **more}


class Case(unittest.TestCase):
    """A test in its own temporary folder, which is also the commands' working folder."""
    maxDiff = None
    expected = set()  # cases of the golden table that tests asked for

    def setUp(self):
        self.expectations = 0
        self.started = 0
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="echelon-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    # -- commands

    def command(self, *arguments, code=0, typed="", **more):
        """Runs a command to its end and demands its exit code, if any. `typed`: its standard input."""
        ran = subprocess.run([str(a) for a in arguments], cwd=self.folder, env=environment(**more), text=True,
                             input=typed, capture_output=True, timeout=WAIT_S)
        result = Result(arguments, ran.returncode, ran.stdout, ran.stderr)
        if code is not None:
            self.assertEqual(code, result.code, str(result))
        return result

    def on_terminal(self, *arguments):
        """What a command leaves on a terminal."""
        return self.command("script", "--quiet", "--return", "--command", shlex.join(str(a) for a in arguments), "/dev/null",
                            TERM="xterm").out

    def recipe(self, name="recipe.yaml", **overrides):
        """Writes a recipe file and returns its name."""
        (self.folder / name).write_text(recipe_text(**overrides))
        return name

    def train_command(self, *arguments, ranks=1):
        return [ECHELON, "train", *arguments] + (["--ranks", ranks] if ranks > 1 else [])

    def train(self, *arguments, ranks=1, code=0):
        """echelon train; the recipe first, then overrides."""
        return self.command(*self.train_command(*arguments, ranks=ranks), code=code)

    def prepare(self, output="data", vocabulary=320, words=2000, seed=1):
        """Makes a small text and, with echelon prepare, token files and a tokenizer in `output`."""
        random_words = random.Random(seed)
        text = " ".join(random_words.choice(WORDS) for _ in range(words))
        source = self.folder / f"{output}-text"
        source.mkdir()
        for part in range(4):
            (source / f"{part}.txt").write_text(text[len(text) * part // 4:len(text) * (part + 1) // 4] + ".\n")
        self.command(ECHELON, "prepare", source.name, "-o", output, "--train-tokenizer", vocabulary,
                     "--validation-fraction", 0.3)

    def flip(self, path, offset, bit=0):
        """Changes one bit of a file; offsets below zero count from its end."""
        with open(self.folder / path, "r+b") as file:
            file.seek(offset, os.SEEK_SET if offset >= 0 else os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1 << bit]))

    def start(self, *arguments):
        """Starts a command in a session of its own and goes on; it is killed with its children after the test."""
        self.started += 1
        err = open(self.folder / f"stderr-{self.started}.txt", "w")
        process = subprocess.Popen([str(a) for a in arguments], cwd=self.folder, env=environment(), text=True,
                                   stdin=subprocess.DEVNULL, stdout=err, stderr=err, start_new_session=True)
        self.addCleanup(err.close)
        self.addCleanup(self.end, process)
        return process

    def stderr_of_started(self, number=None):
        """What the command that was started as number 1, 2, ... said; without a number, the last one."""
        return (self.folder / f"stderr-{number or self.started}.txt").read_text()

    def stop(self, process, number=signal.SIGTERM):
        """A run saves and exits with 85 at a signal."""
        process.send_signal(number)
        self.assertEqual(85, process.wait(WAIT_S), self.stderr_of_started())

    def end(self, process):
        for pid in descendants(process.pid) + [process.pid]:
            kill(pid, signal.SIGKILL)
        process.wait(WAIT_S)

    def expect(self, code, *arguments, hide="", case="", **more):
        """Runs a command that has something to say; what it says, progress left out, is the case <test> (a second time
        <test>.2, else <test>.<case>) of tests/golden/e2e/<script>.txt, word for word. `hide`: a pattern of what differs from one machine or run
        to the next. ECHELON_UPDATE_GOLDEN=1 writes these cases anew, to be read before they are committed."""
        result = self.command(*arguments, code=code, **more)
        said = (line for line in result.err.splitlines() if not PROGRESS.match(line))
        lines = [line for warnings, together in itertools.groupby(said, lambda line: line.startswith("warning: "))
                 for line in (sorted(together) if warnings else together)]  # threads warn in any order
        text = "\n".join([f"exit {result.code}", *lines, ""])
        # What the mpirun of Open MPI 5 says of a failed rank, where a test starts it by itself.
        text = re.sub(r"-{74}\nprterun (?:.|\n)*?-{74}\n|\[warn\] Epoll .*\n", "", text)
        text = text.replace(socket.gethostname(), "HOST")
        text = re.sub(r"(step-\d{9}\.)[0-9a-f]{8}", r"\1SAVE-ID", text)
        text = re.sub(hide, "N", text) if hide else text
        name, self.expectations = self._testMethodName.removeprefix("test_"), self.expectations + 1
        if case or self.expectations > 1:
            name += f".{case or self.expectations}"
        self.expected.add(name)
        expected = golden.expected(GOLDEN, name, text)
        self.assertIsNotNone(expected, f"no case {name} in {GOLDEN}; it would be:\n{text}")
        self.assertEqual(expected, text, f"{name} in {GOLDEN} and what was said differ")
        if code in ERRORS:
            self.assertEqual(1, len([line for line in lines if line.startswith(("echelon: ", "echelon-ckpt: "))]), text)
        return result

    def commands_of(self, program, path=()):
        """{words of a command: its --help} of `program` and everything below it."""
        text = self.command(program, *path, "--help").out
        found = {path: text}
        below = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.M)
        for word in re.findall(r"^  ([a-z]\S*)", below[1], re.M) if below else []:
            found.update(self.commands_of(program, (*path, word)))
        return found

    # -- file systems

    def mount(self, target, *options):
        """A file system in memory that only this test sees; the script must have called in_own_mounts()."""
        if why := os.environ[OWN_MOUNTS]:
            self.skipTest(f"needs a mount namespace, which this machine refuses ({why})")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", *options, "none", str(target)], check=True)
        if not any(word.startswith("remount") for word in options):
            self.addCleanup(subprocess.run, ["umount", "-l", str(target)], check=False)

    # -- waiting

    def wait_for(self, what, condition):
        deadline = time.monotonic() + WAIT_S
        while not (found := condition()):
            if time.monotonic() > deadline:
                self.fail(f"waited {WAIT_S} s for {what}")
            time.sleep(0.01)
        return found

    def wait_for_step(self, step, run="run", process=None):
        """Until metrics.jsonl holds `step` (or a later one), or the process ended."""
        path = self.folder / run / "metrics.jsonl"

        def reached():
            if process is not None and process.poll() is not None:
                self.fail(f"ended with {process.returncode} before step {step}: {self.stderr_of_started()}")
            return path.exists() and any(line["step"] >= step for line in whole_lines(path))
        self.wait_for(f"step {step} of {run}", reached)

    # -- results

    def metrics(self, run="run"):
        """The lines of metrics.jsonl, every one whole, every step once and in order."""
        lines = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(list(range(1, len(lines) + 1)), [line["step"] for line in lines], "steps in metrics.jsonl")
        return lines

    def losses(self, run="run", steps=None):
        """The losses as they are spelled in metrics.jsonl, a text each."""
        self.metrics(run)
        found = re.findall(r'"loss":([^,]+),', (self.folder / run / "metrics.jsonl").read_text())
        self.assertEqual(steps or TINY["train.steps"], len(found), f"steps in metrics.jsonl of {run}")
        return found

    def assert_close(self, expected, actual, relative=1e-5):
        """Every loss, within a relative bound."""
        self.assertEqual(len(expected), len(actual))
        for step, (one, other) in enumerate(zip(map(float, expected), map(float, actual)), 1):
            self.assertLessEqual(abs(one - other), relative * abs(one), f"loss of step {step}: {one} and {other}")

    def checkpoints(self, run="run"):
        """Folders of all checkpoints, by step."""
        return sorted((self.folder / run / "checkpoints").glob("step-*"))

    def weights(self, run="run"):
        """Bytes of the newest checkpoint's weights as safetensors."""
        output = self.folder / (pathlib.Path(run).name + "-weights")
        shutil.rmtree(output, ignore_errors=True)
        self.command(CKPT, "consolidate", run, "--to", "safetensors", "--output", output.name)
        return (output / "model.safetensors").read_bytes()


def whole_lines(path):
    """The lines of a file that is being written, parsed; a torn last one is left out."""
    text = path.read_text()
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _stat(pid):
    """(parent, state) of a process, or None."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[1]), fields[0]
    except (OSError, IndexError):
        return None


def descendants(pid):
    """Ids of all living children, their children and so on, nearest first."""
    parents = {int(name): stat for name in os.listdir("/proc") if name.isdigit() and (stat := _stat(name))}
    found, wave = [], [pid]
    while wave:
        wave = [child for child, (parent, state) in parents.items() if parent in wave and state != "Z"]
        found += wave
    return found


def rank_processes(launcher):
    """Ids of the local ranks that `launcher` started, by rank: not of the forecast that a rank has a child make."""
    ranks = {}
    for pid in descendants(launcher):
        try:
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for rank in (int(v.split(b"=")[1]) for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")):
            ranks.setdefault(rank, pid)
    return [ranks[rank] for rank in sorted(ranks)]


def alive(pid):
    stat = _stat(pid)
    return stat is not None and stat[1] != "Z"


def in_own_mounts():
    """Goes on in a mount namespace of its own (for another user than root in a user namespace, too), if there can be one."""
    if OWN_MOUNTS in os.environ:
        return
    unshare = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", folder], text=True, capture_output=True)
    os.environ[OWN_MOUNTS] = (tried.stderr.strip() or f"exit code {tried.returncode}") if tried.returncode else ""
    if not tried.returncode:
        os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def unused_expectations(test):
    """What tests/golden/e2e holds in vain: tables of no script, cases of no test, cases of `test` that it did not ask for."""
    yield from (table for table in GOLDEN.parent.glob("*.txt") if not (TOP / "tests" / "e2e" / f"{table.stem}.py").exists())
    for name in golden.read(GOLDEN).keys() - {golden.ABOUT} - Case.expected:
        owner = "test_" + name.partition(".")[0]
        if owner == test or not hasattr(sys.modules["__main__"].Tests, owner):
            yield f"{name} in {GOLDEN}"


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} Tests.test_NAME; CMakeLists.txt registers every test by itself")
    result = unittest.main(module="__main__", verbosity=2, exit=False).result
    for _, why in result.skipped:
        print(f"SKIPPED: {why}")
    if result.skipped or not result.wasSuccessful():
        sys.exit(1 if not result.wasSuccessful() else SKIPPED)
    if unused := list(unused_expectations(sys.argv[1].rpartition(".")[2])):
        sys.exit(f"no test uses {', '.join(map(str, unused))}: remove it")
