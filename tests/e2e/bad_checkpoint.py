"""Checkpoints that are damaged, unfinished or foreign: nothing is lost, and one line says what to do."""
import os
import shutil

import product

SIZES = r"\b([0-9a-f]{8}|\d{4,})\b"  # checksums hang on the save id, sizes on the version of HDF5
EVERY_2 = {"train.steps": 6, "checkpoint.every_steps": 2}
# Cases of the golden table: what becomes of the newest checkpoint.
DAMAGES = {
    "uncommitted": lambda self, newest: (newest / "COMMIT").unlink(),
    "manifest_bit_flipped": lambda self, newest: self.flip(newest / "MANIFEST.json", 100),
    "shard_missing": lambda self, newest: (self.folder / self.shard(newest, rank=1)).unlink(),
    "shard_truncated": lambda self, newest: os.truncate(path := self.folder / self.shard(newest), path.stat().st_size - 4096),
    "weight_bit_flipped": lambda self, newest: self.flip_weight(newest, rank=1),
}
SAMPLE = (product.ECHELON, "sample")
HUGGING_FACE = {"llama-hf/config.json": "{}"}
# Cases of the golden table: exit code, files, command.
REFUSED = {
    "sample_of_an_empty_prompt_file": (4, {"prompts.txt": ""}, *SAMPLE, "run", "--prompt-file", "prompts.txt"),
    "sample_of_a_missing_prompt_file": (4, {}, *SAMPLE, "run", "--prompt-file", "none.txt"),
    "sample_of_a_folder_without_checkpoint": (5, {"run/notes": ""}, *SAMPLE, "run", "--prompt", "one"),
    "sample_of_a_hugging_face_folder": (2, HUGGING_FACE, *SAMPLE, "llama-hf/", "--prompt", "x"),
    "sample_of_a_hugging_face_folder_of_pickle": (2, {**HUGGING_FACE, "llama-hf/pytorch_model.bin": ""}, *SAMPLE, "llama-hf", "--prompt", "x"),
    "weights_of_a_hugging_face_folder": (5, HUGGING_FACE, product.ECHELON, "train", "recipe.yaml", "checkpoint.init_from=llama-hf"),
    "sample_of_a_name": (5, {}, *SAMPLE, "Qwen/Qwen3-0.6B", "--prompt", "x"),
    "import_of_a_name": (2, {}, product.CKPT, "import", "Qwen/Qwen3-0.6B", "--output", "imported"),
    "sample_of_no_folder": (5, {}, *SAMPLE, "run", "--prompt", "one"),
    "sample_of_no_folder_on_several_ranks": (5, {}, *SAMPLE, "run", "--prompt", "one", "--ranks", 2),
}


class Tests(product.Case):
    def trained(self, ranks=2, **overrides):
        """A finished run with checkpoints of steps 2, 4 and 6; returns their folders."""
        self.train(self.recipe(**{**EVERY_2, **overrides}), ranks=ranks)
        folders = self.checkpoints()
        self.assertEqual([2, 4, 6], [int(folder.name[5:14]) for folder in folders])
        return folders

    def shard(self, folder, rank=0):
        return next(folder.glob(f"shard-{rank:05}-of-*.h5")).relative_to(self.folder)

    def falls_back(self, to_step, ranks=2, case=""):
        """The run starts again, says what it passes over, goes on from `to_step` and ends as before."""
        expected = self.losses("run", 6)
        result = self.expect(0, *self.train_command("recipe.yaml", ranks=ranks), hide=SIZES, case=case)
        self.assertIn(f"resumed from step {to_step}\n", result.err)
        self.assertEqual(expected, self.losses("run", 6))
        newest = self.checkpoints()[-1]
        self.assertEqual("6", newest.name[5:14].lstrip("0"))

    # -- resume

    def test_a_damaged_checkpoint_is_passed_over(self):
        newest = self.trained()[-1]
        run, whole = self.folder / "run", self.folder / "whole"
        shutil.copytree(run, whole)
        for case, damage in DAMAGES.items():
            with self.subTest(case):
                shutil.rmtree(run)
                shutil.copytree(whole, run)
                damage(self, newest)
                self.falls_back(4, case=case)

    def test_two_damaged_checkpoints_are_passed_over(self):
        folders = self.trained(ranks=1)
        self.flip_weight(folders[1])
        self.flip_weight(folders[2])
        self.falls_back(2, ranks=1)

    def flip_weight(self, folder, rank=0):
        """Changes one bit of a weight that `rank` saved: bytes that both its shard and the consolidated file hold."""
        weights = self.weights(folder.relative_to(self.folder))
        path = self.shard(folder, rank)
        shard = (self.folder / path).read_bytes()
        at = next(at for start in range(4096, len(weights), 64) if (at := shard.find(weights[start:start + 64])) >= 0)
        self.flip(path, at + 5)

    def test_all_checkpoints_damaged(self):
        for folder in self.trained():
            self.flip_weight(folder)
        run = self.folder / "run"
        before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and "logs" not in path.parts}
        for ranks in (1, 2):
            self.expect(5, *self.train_command("recipe.yaml", "run.name=again", ranks=ranks), hide=SIZES)
        for path, content in before.items():
            if path.name not in (".lock", "goodput.json"):
                self.assertEqual(content, path.read_bytes(), path)

    # -- files beside the tensors

    def test_damage_outside_tensors_is_named_and_made_good(self):
        self.prepare()
        self.train(self.recipe(**product.ON_TOKENS))
        newest = self.checkpoints()[-1]
        tokenizer = next(newest.glob("tokenizer.*"))
        content = tokenizer.read_bytes()
        for damage in (lambda path: self.flip(path, 10), lambda path: (self.folder / path).unlink()):
            for name in ("recipe.yaml", "config.json", tokenizer.name):
                damage((newest / name).relative_to(self.folder))
            steps = len(self.metrics()) + 1
            said = self.train("recipe.yaml", f"train.steps={steps}").err
            self.assertIn(f"resumed from step {steps - 1}\n", said)
            for name in ("recipe.yaml", "config.json", tokenizer.name):
                self.assertRegex(said, rf"warning: [^\n]*{newest.name}/{name}[^\n]*; ")
            newest = self.checkpoints()[-1]
            self.command(product.CKPT, "verify", newest.relative_to(self.folder))
            self.assertEqual(content, (newest / tokenizer.name).read_bytes())

    # -- sample

    def test_sample_without_a_tokenizer(self):
        self.trained(ranks=1)
        self.expect(4, product.ECHELON, "sample", "run", "--prompt", "one")

    def test_what_is_no_checkpoint_is_refused(self):
        self.recipe()
        here = set(self.folder.iterdir())
        for case, (code, files, *words) in REFUSED.items():
            for name, text in files.items():
                (self.folder / name).parent.mkdir(exist_ok=True)
                (self.folder / name).write_text(text)
            with self.subTest(case):
                self.expect(code, *words, case=case)
            for path in set(self.folder.iterdir()) - here:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def test_sample_of_an_image_model(self):
        image_model = {"model.kind": "cnn", "model.image_size": 28, "model.channels": 1, "model.classes": 10}
        data = {"data.kind": "synthetic_images", "run.dir": "run", "train.device": "cpu", "train.steps": 1,
                "train.micro_batch_size": 1, "train.global_batch_size": 1, "optim.kind": "sgd"}
        (self.folder / "recipe.yaml").write_text(product.yaml_text({**image_model, **data}))
        self.train("recipe.yaml")
        for ranks in (1, 2):
            self.expect(2, product.ECHELON, "sample", "run", "--prompt", "one", "--ranks", ranks)

    def test_sample_of_damaged_weights_on_several_ranks(self):
        self.prepare()
        self.train(self.recipe(**product.ON_TOKENS))
        self.flip_weight(self.checkpoints()[-1])
        self.expect(5, product.ECHELON, "sample", "run", "--prompt", "one", "--tokens", 4, "--ranks", 2, hide=SIZES)

    # -- removal

    def test_old_checkpoints_are_removed_only_behind_whole_ones(self):
        self.train(self.recipe(**{**EVERY_2, "checkpoint.keep_last": 2}), ranks=2)
        self.assertEqual([4, 6], [int(folder.name[5:14]) for folder in self.checkpoints()])
        newest = self.checkpoints()[-1]
        (newest / "COMMIT").unlink()
        shutil.rmtree(self.folder / "run" / "logs")
        self.train("recipe.yaml", "checkpoint.keep_last=2", ranks=2)
        self.assertEqual([4, 6], [int(folder.name[5:14]) for folder in self.checkpoints()])
        self.assertFalse(newest.exists(), "what was never committed goes once there is something newer")


if __name__ == "__main__":
    product.main()
