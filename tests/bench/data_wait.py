"""The share of its steps that training waits for data (`data_wait_s` of the metrics over `step_time_s`), on two CPU
ranks of one thread, with one reading thread each as is the default: token files, pairs, digits and a folder of JPEGs,
all made here. The first two steps of each run do not count."""
import argparse
import json
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy
from PIL import Image

COMMON = ["train.device=cpu", "train.threads_per_rank=1", "checkpoint.every_steps=0", "metrics.every_steps=1"]


def write_digits(folder):
    values = numpy.random.default_rng(1)
    images = values.integers(0, 256, (4096, 28, 28), numpy.uint8)
    (folder / "train-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, *images.shape) + images.tobytes())
    labels = values.integers(0, 10, len(images), numpy.uint8)
    (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, len(labels)) + labels.tobytes())


def write_photos(folder, count=256):
    """JPEGs of 500 x 375, the usual size of ImageNet's."""
    y, x = numpy.mgrid[0:375, 0:500]
    for number in range(count):
        noise = numpy.random.default_rng(number).integers(0, 40, (375, 500, 3))
        waves = [numpy.sin((x * a + y * b + number) / 9.0) * 100 + 108 for a, b in ((1, 0), (0.3, 1), (1, 1))]
        path = folder / "photos" / f"class{number % 4}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(numpy.clip(numpy.stack(waves, -1) + noise, 0, 255).astype(numpy.uint8)).save(path, quality=90)


def cases(folder):
    tokens = [f"data.path={folder}/data.tok"]
    llama = ["recipes/quickstart.yaml", *tokens, f"data.validation.path={folder}/data.tok", "train.validate_every_steps=0",
             "schedule.warmup_steps=1"]
    return {
        "Llama of `recipes/quickstart.yaml`, `stream`": llama,
        "the same, `documents`": [*llama, "data.packing=documents"],
        "the same, `pad`": [*llama, "data.packing=pad"],
        "T5 small, 512 and 150 tokens, `pairs`": ["tests/bench/t5_small.yaml", "data.kind=pairs",
                                                  f"data.path={folder}/pairs.tok"],
        "CNN of the MNIST recipes, `idx`": ["recipes/mnist_smoke.yaml", "data.kind=idx",
                                            f"data.path={folder}/train-images-idx3-ubyte"],
        "ViT, 22 M parameters, 224 x 224, `image_folder`": [
            "recipes/deepvit_smoke.yaml", "model.preset=vit_base", "model.hidden_size=384", "model.intermediate_size=1536",
            "model.layers=12", "model.heads=6", "model.image_size=224", "model.patch_size=16", "model.classes=4",
            "data.kind=image_folder", f"data.path={folder}/photos"],
    }


def waiting(echelon, arguments, run, steps):
    command = [echelon, "train", *arguments, *COMMON, f"train.steps={steps}", f"run.dir={run}", "--ranks", "2"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line.get("step", 0) > 2 and "data_wait_s" in line]
    assert len(lines) == steps - 2, lines
    seconds = sum(line["step_time_s"] for line in lines)
    return seconds / len(lines), sum(line["data_wait_s"] for line in lines) / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writer", required=True)
    parser.add_argument("--echelon", default="build/release/bin/echelon")
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    print("| | ms a step | of it waiting for data |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([arguments.writer, "write", folder / "data.tok", "2000000", "4096"], check=True)
        subprocess.run([arguments.writer, "pairs", folder / "pairs.tok", "2000000", "32000"], check=True)
        write_digits(folder)
        write_photos(folder)
        for i, (title, recipe) in enumerate(cases(folder).items()):
            step, share = waiting(arguments.echelon, recipe, folder / f"run{i}", arguments.steps)
            print(f"| {title} | {step * 1e3:.0f} | {share:.2%} |", flush=True)


if __name__ == "__main__":
    main()
