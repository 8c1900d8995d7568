"""Folders that others have made or can write to: no file that the programs create there is written through a link,
and a folder of another user is refused. Every name that a run, a conversion and a preparation leave is tried."""
import os
import pathlib
import re

import product

VICTIM = "what must not change"
OTHER = 54321  # a user that is not us


class Tests(product.Case):
    def setUp(self):
        super().setUp()
        self.victim = self.folder / "victim"
        self.victim.write_text(VICTIM)

    def plant(self, path, kind):
        """A link to the victim under that name."""
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.victim) if kind == "symbolic" else path.hardlink_to(self.victim)

    def sweep(self, names, command, kind):
        """All names at once; those that stop the command are named by it and left out, one after the other."""
        left = list(names)
        while True:
            for name in left:
                (self.folder / name).unlink(missing_ok=True)
                self.plant(name, kind)
            result = self.command(*command, code=None)
            self.assertEqual(VICTIM, self.victim.read_text(), str(result))
            if result.code == 0:
                return
            blamed = [name for name in left if f"{name}'" in result.err]
            self.assertTrue(blamed, f"{result}\nnames none of the links")
            (self.folder / blamed[0]).unlink(missing_ok=True)
            left.remove(blamed[0])

    def files_below(self, folder, but=()):
        root = self.folder / folder
        return sorted(str(path.relative_to(root)) for path in root.rglob("*")
                      if path.is_file() and not any(part.startswith(but) for part in path.parts))

    def with_drafts(self, folder, names):
        return [f"{folder}/{name}{end}" for name in names for end in ("", ".tmp")]

    def refuse_another_users(self, folder, command):
        """Root does not work in another user's folder, and leaves it as it is. Others have none: their test ends here."""
        if os.geteuid() != 0:
            self.skipTest("only root can give a folder to another user")
        path = self.folder / folder
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, OTHER, OTHER)
        before = sorted(path.rglob("*"))
        result = self.command(*command, code=None)
        self.assertIn(result.code, (2, 4), str(result))
        self.assertIn(f"belongs to user {OTHER}", result.err)
        self.assertEqual(before, sorted(path.rglob("*")))

    # -- a run folder

    def run_names(self):
        self.prepare()
        self.recipe(**{**product.ON_TOKENS, "data.validation.path": "data/valid.tok",
                       "train.validate_every_steps": 1})
        self.train("recipe.yaml", "run.dir=reference")
        names = self.files_below("reference", but=("step-",))
        for name in (".lock", "metrics.jsonl", "goodput.json", "recipe.yaml", "best_validation.json",
                     "logs/rank-0.log"):
            self.assertIn(name, names)
        return names + ["logs/peer-failure.txt", "logs/suspects.txt"]  # of runs that lose a peer

    def test_a_run_writes_through_no_link(self):
        names = self.run_names()
        for kind in ("symbolic", "hard"):
            self.sweep(self.with_drafts(kind, names), self.train_command("recipe.yaml", f"run.dir={kind}"), kind)

    def test_a_run_folder_of_another_user_is_refused(self):
        names = self.run_names()
        if os.geteuid() != 0:  # "/" is root's
            self.command(*self.train_command("recipe.yaml", "run.dir=/"), code=2)
        command = self.train_command("recipe.yaml", "run.dir=theirs")
        for name in self.with_drafts("theirs", names):
            self.plant(name, "symbolic")
        self.refuse_another_users("theirs", command)
        self.assertEqual(VICTIM, self.victim.read_text())
        (self.folder / "own").mkdir()
        self.refuse_another_users("own/checkpoints", self.train_command("recipe.yaml", "run.dir=own"))
        for path in (self.folder / "theirs").rglob("*"):
            if path.is_symlink():
                path.unlink()
        self.sweep(self.with_drafts("theirs", names), command + ["run.allow_foreign_folder=true"], "symbolic")

    def test_runs_below_a_sticky_folder(self):
        self.recipe(**{"train.steps": 3})
        runs = self.folder / "runs"
        runs.mkdir()
        runs.chmod(0o1777)
        if os.geteuid() == 0:
            os.chown(runs, OTHER, OTHER)
        self.train("recipe.yaml", "run.dir=runs/mine")
        self.refuse_another_users("runs/theirs", self.train_command("recipe.yaml", "run.dir=runs/theirs"))

    # -- outputs

    def partial_folder(self, command):
        """Where a conversion works until its output is whole: it says so when it may write nothing."""
        result = self.command("bash", "-c", f"ulimit -f 0; {' '.join(map(str, command))}", code=None)
        found = re.search(r"'([^']*\.partial-[0-9a-f]{8})", result.err)
        self.assertTrue(found, str(result))
        return pathlib.Path(found[1]).name

    def test_a_conversion_writes_through_no_link(self):
        self.train(self.recipe(**{"train.steps": 3}))
        for to, names in (("hdf5", ["output"]), ("safetensors", ["output/model.safetensors", "output/config.json",
                                                                 "output/recipe.yaml"])):
            for kind in ("symbolic", "hard"):
                output = f"{to}-{kind}"
                command = [product.CKPT, "consolidate", "run", "--to", to, "--output", output]
                partial = self.partial_folder(command)
                self.assertFalse((self.folder / partial).exists())
                self.sweep(self.with_drafts(partial, names + ["journal"]), command, kind)
                self.assertTrue((self.folder / output).exists())
        command = [product.CKPT, "consolidate", "run", "--to", "hdf5", "--output", "theirs"]
        partial = self.partial_folder(command)
        self.refuse_another_users(partial, command)
        self.command(*command, "--allow-foreign-folder")

    def test_a_partial_output_that_is_a_link_is_refused(self):
        self.train(self.recipe(**{"train.steps": 3}))
        (self.folder / "elsewhere").mkdir()
        (self.folder / "elsewhere" / "output").write_text(VICTIM)
        command = [product.CKPT, "consolidate", "run", "--to", "hdf5", "--output", "whole.h5"]
        (self.folder / self.partial_folder(command)).symlink_to(self.folder / "elsewhere")
        self.command(*command, code=2)
        self.assertEqual(VICTIM, (self.folder / "elsewhere" / "output").read_text())
        self.assertEqual(["output"], self.files_below("elsewhere"))

    def test_preparing_writes_through_no_link(self):
        self.prepare("reference")
        names = self.files_below("reference")
        self.assertIn("train.tok", names)
        for kind in ("symbolic", "hard"):
            command = [product.ECHELON, "prepare", "reference-text", "-o", kind, "--train-tokenizer", 320,
                       "--validation-fraction", 0.3, "--force"]
            self.sweep(self.with_drafts(kind, names), command, kind)
        self.refuse_another_users("theirs", [product.ECHELON, "prepare", "reference-text", "-o", "theirs",
                                             "--train-tokenizer", 320])


if __name__ == "__main__":
    product.main()
