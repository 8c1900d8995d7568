"""Training on images: the tutorials' CNN learns digits under every strategy; images that cannot be used."""
import os
import pathlib
import random
import shutil
import struct
import sys
import zlib

import product

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent / "scripts"
DIGITS = pathlib.Path(os.environ["ECHELON_DIGITS"])
CNN = {
    "run.seed": 1,
    "model.kind": "cnn", "model.image_size": 28, "model.channels": 1, "model.classes": 10, "model.dropout": 0.5,
    "data.kind": "idx", "data.path": "digits/train-images-idx3-ubyte",
    "data.validation.path": "digits/test-images-idx3-ubyte", "data.validation.batches": 0,
    "data.mean": [0.1307], "data.std": [0.3081],
    "optim.kind": "adadelta", "optim.lr": 1.0, "optim.eps": 1e-6, "optim.weight_decay": 0.0,
    "schedule.kind": "step", "schedule.step_epochs": 1, "schedule.gamma": 0.7,
    "train.device": "cpu", "train.epochs": 3, "train.micro_batch_size": 16, "train.global_batch_size": 32,
    "train.clip_grad_norm": 0.0, "train.validate_every_epochs": 1, "train.threads_per_rank": 1,
    "checkpoint.every_steps": 0, "checkpoint.keep_last": 1, "metrics.every_steps": 1,
}
STRATEGIES = {
    "ddp": ["shard.strategy=no_shard"],
    "zero2": ["shard.strategy=shard_grad_op"],
    "by_size": ["shard.strategy=full_shard", "shard.wrap.policy=size_based", "shard.wrap.min_params=20000"],
}


def png(values):
    """An RGB PNG of rows of pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(values[0]), len(values), 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in values)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


class Tests(product.Case):
    def write_recipe(self, name="recipe.yaml", **overrides):
        (self.folder / name).write_text(product.yaml_text({**CNN, "run.dir": "run", **overrides}))
        return name

    def digits(self, *arguments, code=0):
        return self.command(sys.executable, SCRIPTS / "digits.py", *arguments, code=code)

    def prepare_digits(self):
        self.digits("--source", DIGITS, "--output", "digits")

    def write_folder(self, name, images, seed):
        """Two classes, bright and dark; `images` of each."""
        colors = random.Random(seed)
        for label, floor in (("bright", 140), ("dark", 0)):
            folder = self.folder / name / label
            folder.mkdir(parents=True)
            for i in range(images):
                pixels = [[[floor + colors.randrange(110) for _ in range(3)] for _ in range(20 + i)] for _ in range(24)]
                (folder / f"{i}.png").write_bytes(png(pixels))

    def test_digits_are_learned_alike_by_ddp_zero2_and_units_by_size(self):
        self.prepare_digits()
        recipe = self.write_recipe()
        results = {}
        for name, overrides in STRATEGIES.items():
            self.train(recipe, f"run.dir={name}", *overrides, ranks=2)
            epochs = [line for line in self.metrics(name) if line.get("validation_accuracy") is not None]
            self.assertEqual(3, len(epochs), f"{name}: one validation an epoch")
            results[name] = epochs[-1]["validation_accuracy"]
            self.assertGreater(results[name], 0.95, f"{name}: {results}")
            self.assertLess(epochs[-1]["validation_loss"], epochs[0]["validation_loss"], name)
            self.assertAlmostEqual(epochs[-1]["lr"], 0.49, places=6)
        self.assertLess(max(results.values()) - min(results.values()), 0.02, results)

    def test_a_folder_is_learned_and_skipped_images_do_not_depend_on_ranks(self):
        self.write_folder("train", 12, seed=1)
        self.write_folder("valid", 4, seed=2)
        (self.folder / "train/dark/3.png").write_bytes(b"no image")
        whole = self.folder / "train/bright/5.png"
        whole.write_bytes(whole.read_bytes()[:200])
        on_folder = {"data.kind": "image_folder", "data.path": "train", "data.validation.path": "valid",
                     "data.mean": [0.5], "data.std": [0.25], "model.image_size": 12, "model.channels": 3, "model.classes": 2,
                     "train.epochs": 4, "train.micro_batch_size": 2, "train.global_batch_size": 8,
                     "optim.lr": 0.1}
        recipe = self.write_recipe(**on_folder)
        refused = self.train(recipe, code=4)
        self.assertRegex(refused.err, r"image 'train/(dark/3|bright/5)\.png' is ")
        shutil.rmtree(self.folder / "run")
        runs = {}
        for ranks, workers in ((1, 0), (2, 3)):
            name = f"run-{ranks}"
            self.train(recipe, f"run.dir={name}", "data.on_bad_record=skip", f"data.workers={workers}", ranks=ranks)
            runs[name] = self.metrics(name)
            self.assertEqual(1.0, runs[name][-1]["validation_accuracy"])
        for one, two in zip(runs["run-1"], runs["run-2"]):
            self.assertAlmostEqual(one["loss"], two["loss"], delta=1e-4)

    def test_computed_images_are_learned_and_validated_without_files(self):
        keys = {key: value for key, value in CNN.items() if key.partition(".")[0] in ("run", "model", "checkpoint")}
        keys.update({"run.dir": "run", "model.dropout": 0.0, "model.classes": 4, "data.kind": "synthetic_images",
                     "data.mean": [0.5], "data.std": [0.25], "data.validation.samples": 50,
                     "data.validation.batches": 0, "optim.kind": "adamw", "optim.lr": 1e-3, "train.device": "cpu",
                     "train.steps": 20, "train.validate_every_steps": 10, "train.threads_per_rank": 1,
                     "train.micro_batch_size": 4, "train.global_batch_size": 16, "metrics.every_steps": 1})
        (self.folder / "recipe.yaml").write_text(product.yaml_text(keys))
        runs = []
        for ranks in (1, 2):
            self.train("recipe.yaml", f"run.dir=run-{ranks}", ranks=ranks)
            runs.append([line for line in self.metrics(f"run-{ranks}") if "validation_loss" in line])
            self.assertEqual([10, 20], [line["step"] for line in runs[-1]])
            self.assertGreater(runs[-1][-1]["validation_accuracy"], 0.9, runs)
        for one, two in zip(*runs):
            self.assertAlmostEqual(one["validation_loss"], two["validation_loss"], delta=1e-4)

    def test_labels_that_do_not_fit_are_refused(self):
        self.prepare_digits()
        labels = self.folder / "digits/train-labels-idx1-ubyte"
        recipe = self.write_recipe()
        for classes, text in ((5, "model.classes is 5"), (10, "labels for 1498 images")):
            if classes == 10:
                labels.write_bytes(labels.read_bytes()[:4] + struct.pack(">I", 3) + b"\0\1\2")
            refused = self.train(recipe, f"model.classes={classes}", code=4)
            self.assertIn(text, refused.err)
        labels.unlink()
        self.assertIn("no labels beside", self.train(recipe, code=4).err)

    def test_the_script_of_digits_refuses_what_is_not_theirs(self):
        self.assertIn("./make.sh digits", self.digits("-o", "d", code=1).err)
        (self.folder / "other.csv").write_text("a,b\n")
        self.assertIn("line 1", self.digits("-o", "d", "--source", "other.csv", code=1).err)
        self.prepare_digits()
        labels = self.folder / "digits/test-labels-idx1-ubyte"
        made = labels.read_bytes()
        labels.write_bytes(b"MNIST")
        self.assertIn("--force", self.digits("--source", DIGITS, "-o", "digits", code=1).err)
        self.digits("--source", DIGITS, "-o", "digits", "--force")
        self.assertEqual(made, labels.read_bytes())


if __name__ == "__main__":
    product.main()
