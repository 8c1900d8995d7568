"""Completion in bash, zsh and fish at a terminal, manual pages, and the commands that list and compare."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import time

import product

# What is typed before a tab, and the line behind it.
COMPLETED = (("echelon trai", "echelon train"),
             ("echelon train smoke shard.strategy=no", "echelon train smoke shard.strategy=no_shard"),
             ("echelon train smoke optim.w", "echelon train smoke optim.weight_decay="),
             ("echelon prepare --form", "echelon prepare --format"),
             ("echelon prepare --format js", "echelon prepare --format jsonl"),
             ("echelon-ckpt consolidate x --to safe", "echelon-ckpt consolidate x --to safetensors"),
             ("echelon train min", "echelon train mine.yaml"),
             ("echelon-ckpt verify my_r", "echelon-ckpt verify my_run/"),
             ("echelon watch my_r", "echelon watch my_run"))


class Terminal:
    """An interactive shell on a terminal, to which keys are sent."""

    def __init__(self, command, folder):
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.environ.update(TERM="xterm", PATH=f"{pathlib.Path(product.ECHELON).parent}:{os.environ['PATH']}",
                              HOME=str(folder), COLUMNS="200", LINES="50")
            os.execvp(command[0], command)
        self.seen = ""

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def read_until(self, pattern, seconds=60):
        """What the shell wrote up to and with `pattern`; later calls begin behind it."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            readable, _, _ = select.select([self.terminal], [], [], max(0.0, end - time.monotonic()))
            assert readable, f"no {pattern!r} within {seconds} s, but {self.seen[-2000:]!r}"
            self.seen += os.read(self.terminal, 65536).decode(errors="replace")
        text, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return text

    def end(self):
        os.close(self.terminal)
        os.waitpid(self.child, 0)


class Tests(product.Case):
    def shell(self, name, *options):
        if shutil.which(name) is None:
            self.skipTest(f"{name} is not installed here")
        (self.folder / "mine.yaml").write_text("run: {name: mine}\n")
        (self.folder / "my_run").mkdir()
        (self.folder / "my_run" / "metrics.jsonl").write_text("")
        shell = Terminal([name, *options], self.folder)
        self.addCleanup(shell.end)
        return shell

    def assert_completes(self, shell, words=COMPLETED):
        """Types the beginnings of commands and a tab, and lets the shell print the line that this makes."""
        for begun, whole in words:
            shell.type(f"{begun}\t\x01echo '<' \x05 '>'\n")
            said = shell.read_until(r"\n< [^\n]* >\s*\n")
            # zsh takes a folder's slash back when a space follows.
            self.assertIn(re.sub(r"\s+", " ", said.splitlines()[-1]), (f"< {whole} >", f"< {whole.rstrip('/')} >"))

    def test_bash_completes_words(self):
        shell = self.shell("bash", "--norc", "--noprofile", "-i")
        shell.type("bind 'set enable-bracketed-paste off'; source <(echelon completion bash; echelon-ckpt completion bash)\n")
        self.assert_completes(shell)

    def test_zsh_completes_words(self):
        shell = self.shell("zsh", "-f", "-i")
        shell.type("autoload -Uz compinit && compinit -u -D; source <(echelon completion zsh; echelon-ckpt completion zsh)\n")
        self.assert_completes(shell)

    def test_zsh_finds_the_script_in_a_folder_of_functions(self):
        shell = self.shell("zsh", "-f", "-i")
        functions = self.folder / "functions"
        functions.mkdir()
        (functions / "_echelon").write_text(self.command(product.ECHELON, "completion", "zsh").out)
        shell.type(f"fpath=({functions} $fpath); autoload -Uz compinit && compinit -u -D\n")
        self.assert_completes(shell, COMPLETED[:2])

    def test_fish_offers_words_with_their_meanings(self):
        self.shell("fish", "--no-config")
        for begun, whole in COMPLETED:
            program = begun.split()[0]
            said = self.command("fish", "--no-config", "-c", f"{program} completion fish | source; complete -C '{begun}'",
                                PATH=f"{pathlib.Path(product.ECHELON).parent}:{os.environ['PATH']}", HOME=str(self.folder)).out
            self.assertIn(whole.split()[-1], [line.split("\t")[0] for line in said.splitlines()])
        self.assertIn("train\tTrain from a recipe", self.command(product.ECHELON, "complete", "trai").out)

    def test_where_files_are_expected_the_shell_completes_them(self):
        self.command(product.ECHELON, "complete", "prepare", "", code=1)
        self.command(product.ECHELON, "complete", "prepare", "--output", "", code=1)

    def test_a_shell_that_is_not_known_is_refused(self):
        self.expect(2, product.ECHELON, "completion", "tcsh")

    def test_every_command_has_a_manual_page_that_mandoc_accepts(self):
        pages = set()
        for program in (product.ECHELON, product.CKPT):
            self.command(program, "manual", ".")
            name = pathlib.Path(program).name
            pages |= {"-".join((name, *words)) + ".1" for words in self.commands_of(program)}
        written = {page.name: page for page in (self.folder / "man1").iterdir()}
        self.assertEqual(pages, set(written))
        train = written["echelon-train.1"].read_text()
        self.assertIn("\\fB\\-q,\\-\\-quiet\\fR\nPrint nothing but warnings and errors", train)
        if shutil.which("mandoc"):
            self.assertEqual("", self.command("mandoc", "-Tlint", *written.values()).out)

    def test_the_date_of_manual_pages_can_be_fixed(self):
        self.command(product.ECHELON, "manual", ".", SOURCE_DATE_EPOCH="1000000000")
        self.assertIn('.TH ECHELON-TRAIN 1 2001-09-09 "echelon"', (self.folder / "man1" / "echelon-train.1").read_text())

    def test_manual_pages_need_a_folder(self):
        (self.folder / "file").write_text("")
        self.expect(2, product.ECHELON, "manual", "file")

    def test_runs_are_listed_with_where_they_stand(self):
        self.recipe(**{"train.steps": 6, "checkpoint.every_steps": 4})
        self.train("recipe.yaml", "run.dir=runs/a")
        self.train("recipe.yaml", "run.dir=runs/deep/b", "train.steps=3", "checkpoint.every_steps=0")
        (self.folder / "runs" / "other").mkdir()
        (self.folder / "runs" / "loop").symlink_to("..")
        rows = json.loads(self.command(product.ECHELON, "runs", "--json").out)
        self.assertEqual([("runs/deep/b", "finished", 3, 3), ("runs/a", "finished", 6, 6)],
                         [(row["folder"], row["state"], row["step"], row["steps"]) for row in rows])
        self.assertEqual([step["loss"] for run in ("runs/deep/b", "runs/a") for step in self.metrics(run)[-1:]],
                         [row["loss"] for row in rows])
        self.assertEqual(6, rows[1]["saved_step"])
        self.assertIsNone(rows[1]["validation_loss"])
        lines = self.command(product.ECHELON, "runs").out.splitlines()
        self.assertEqual(["run", "state", "step", "loss", "validation", "tokens/s", "saved", "changed"], lines[0].split())
        self.assertRegex(lines[2], r"^runs/a +finished +6/6 +\d")
        self.assertEqual("no run at or below 'runs/other'\n", self.command(product.ECHELON, "runs", "runs/other").out)
        self.expect(2, product.ECHELON, "runs", "nowhere")

    def test_recipes_are_compared_by_what_they_resolve_to(self):
        self.recipe("a.yaml", **{"model.kv_heads": 5})
        self.recipe("b.yaml", **{"model.kv_heads": 5, "optim.lr": 1e-2, "model.head_size": 8})
        said = self.command(product.ECHELON, "recipes", "diff", "a.yaml", "b.yaml").out
        self.assertEqual("optim.lr: 0.003 -> 0.01\n", said)  # 40 / 5 heads: a head has 8 already
        self.assertEqual([{"key": "optim.lr", "a": "0.003", "b": "0.01"}],
                         json.loads(self.command(product.ECHELON, "recipes", "diff", "a.yaml", "b.yaml", "--json").out))
        self.assertEqual("# no key that they use differs\n",
                         self.command(product.ECHELON, "recipes", "diff", "smoke", "smoke").out)

    def test_a_translated_configuration_trains(self):
        (self.folder / "debug.toml").write_text(
            '[model]\nflavor = "tiny"\n[training]\nlocal_batch_size = 2\nseq_len = 16\nsteps = 3\n[lr_scheduler]\nwarmup_steps = 1\n')
        self.command(product.ECHELON, "recipes", "from", "debug.toml", "--ranks", 2, "--output", "mine.yaml")
        self.assertIn("line 2: model.flavor: tiny", (self.folder / "mine.yaml").read_text())
        self.prepare()
        sizes = [f"{key}={value}" for key, value in product.TINY.items() if key.startswith("model.")]
        self.train("mine.yaml", "run.dir=run", "precision.preset=fp32", *sizes, "model.vocab_size=320", ranks=2)
        self.assertEqual(3, json.loads((self.folder / "run/metrics.jsonl").read_text().splitlines()[-1])["step"])
        self.expect(2, product.ECHELON, "recipes", "from", "debug.toml", "--output", "mine.yaml")
        self.expect(2, product.ECHELON, "recipes", "from", "nowhere.toml")


if __name__ == "__main__":
    product.main()
