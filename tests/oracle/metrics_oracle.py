"""Metrics of a run that was resumed, as TensorBoard's, Prometheus's and Python's own readers find them.

The same numbers must come out of the files that a run writes and of those that `echelon metrics` makes from its
metrics.jsonl: every step once, in spite of the steps that were repeated.
"""
import argparse
import csv
import io
import json
import math
import os
import pathlib
import shutil
import struct
import sys
import types
import unittest
import zlib

parser = argparse.ArgumentParser()
for option in ("--dump", "--mpirun", "--echelon", "--ckpt"):
    parser.add_argument(option)
options, rest = parser.parse_known_args()
os.environ.update(ECHELON_BIN=options.echelon, ECHELON_CKPT_BIN=options.ckpt)
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "e2e"), str(pathlib.Path(sys.prefix) / "readers")]
import product  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402
from tensorboard.compat.proto.event_pb2 import Event  # noqa: E402
import yaml  # noqa: E402

# Only the messages of W&B: the package itself wants its dependencies.
wandb = sys.modules["wandb"] = types.ModuleType("wandb")
wandb.__path__ = [str(pathlib.Path(sys.prefix) / "readers" / "wandb")]
from wandb.proto.v6.wandb_internal_pb2 import Record  # noqa: E402

STEPS = 6
EXPORTS = {"metrics.tensorboard": True, "metrics.prometheus": True, "metrics.csv": True, "metrics.unit_grad_norms": True}


def numbers(line, before=""):
    """{"breakdown_s/compute": 0.1}: the numbers of a line."""
    found = {}
    for key, value in line.items():
        if isinstance(value, dict):
            found.update(numbers(value, f"{before}{key}/"))
        elif value is not None:
            found[before + key] = value
    return found


def scalars(folder):
    """{tag: {step: value}} as TensorBoard sees a folder; a step that it has twice is a fault."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    found = {}
    for tag in events.Tags()["scalars"]:
        entries = events.Scalars(tag)
        found[tag] = {entry.step: entry.value for entry in entries}
        assert len(found[tag]) == len(entries), f"{tag} has a step twice: {entries}"
    return found


def records(data):
    """The Records of a .wandb file: LevelDB's log, with a CRC-32 over the type and the bytes of each part."""
    assert data.startswith(b":W&B\xe1\xbe\0")
    at, whole = 7, b""
    while at < len(data):
        room = 32768 - at % 32768
        if room < 7:
            assert not any(data[at:at + room])
            at += room
            continue
        crc, size, kind = struct.unpack_from("<IHB", data, at)
        part = data[at + 7:at + 7 + size]
        assert size <= room - 7 and crc == zlib.crc32(part, zlib.crc32(bytes([kind])))
        assert (kind in (1, 2)) == (whole == b"")
        whole, at = whole + part, at + 7 + size
        if kind in (1, 4):
            yield Record.FromString(whole)
            whole = b""
    assert whole == b""


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


class Metrics(product.Case):
    def resumed_run(self):
        """A run of two ranks that trained steps 4 to 6 twice; its lines."""
        recipe = self.recipe(**{"train.steps": STEPS, "checkpoint.every_steps": 3, **EXPORTS})
        self.train(recipe, ranks=2)
        first = self.lines()
        shutil.rmtree(self.checkpoints()[-1])
        self.train(recipe, "optim.lr=1e-3", ranks=2)
        lines = self.metrics()
        self.assertEqual(first[:3], lines[:3])
        self.assertNotEqual(first[3], lines[3])
        return lines

    def lines(self):
        return [json.loads(line) for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines()]

    def exported(self, *arguments):
        return self.command(product.ECHELON, "metrics", "run", *arguments).out

    def check_tensorboard(self, folder, lines):
        expected = {}
        for line in lines:
            for tag, value in numbers(line).items():
                if tag not in ("step", "time"):
                    expected.setdefault(tag, {})[line["step"]] = single(value)
        self.assertEqual(expected, scalars(folder))

    def check_csv(self, text, lines):
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual([numbers(line) for line in lines],
                         [{name: float(cell) for name, cell in row.items() if cell} for row in rows])
        self.assertEqual(["step", "time", "loss"], list(rows[0])[:3])

    def check_wandb(self, folder, lines):
        """`folder`: as the command printed it."""
        file, = folder.glob("run-*.wandb")
        self.assertEqual(f"run-{folder.name.rpartition('-')[2]}.wandb", file.name)
        header, run, *history, summary, end = records(file.read_bytes())
        self.assertEqual(list(range(1, len(lines) + 5)), [record.num for record in (header, run, *history, summary, end)])
        self.assertTrue(header.HasField("header") and end.HasField("exit"))
        self.assertEqual(("run", "echelon", folder.name.rpartition("-")[2]),
                         (run.run.display_name, run.run.project, run.run.run_id))
        self.assertAlmostEqual(lines[0]["time"], run.run.start_time.seconds + run.run.start_time.nanos / 1e9, places=3)
        config = {item.key: json.loads(item.value_json) for item in run.run.config.update}
        self.assertEqual((STEPS, [0.9, 0.95], "llama"), (config["train.steps"], config["optim.betas"], config["model.kind"]))

        def values(items):
            return {"/".join(item.nested_key): json.loads(item.value_json) for item in items}
        for line, record in zip(lines, history, strict=True):
            expected = numbers(line)
            step, time = expected.pop("step"), expected.pop("time")
            found = values(record.history.item)
            self.assertEqual((step, step, time), (record.history.step.num, found.pop("_step"), found.pop("_timestamp")))
            self.assertAlmostEqual(time - lines[0]["time"], found.pop("_runtime"), places=6)
            self.assertEqual(expected, found)
        newest = values(summary.summary.update)
        self.assertEqual((lines[-1]["step"], lines[-1]["loss"]), (newest["_step"], newest["loss"]))

    def check_mlflow(self, folder, lines):
        self.assertEqual({"artifacts", "meta.yaml", "metrics", "params", "tags"}, {path.name for path in folder.iterdir()})
        meta = yaml.safe_load((folder / "meta.yaml").read_text())
        experiment = yaml.safe_load((folder.parent / "meta.yaml").read_text())
        self.assertEqual((folder.name, folder.parent.name, 3), (meta["run_id"], meta["experiment_id"], meta["status"]))
        self.assertEqual((folder.parent.name, "echelon"), (experiment["experiment_id"], experiment["name"]))
        self.assertEqual((str(STEPS), '"llama"'), tuple((folder / "params" / name).read_text() for name in ("train.steps", "model.kind")))
        expected = {}
        for line in lines:
            for tag, value in numbers(line).items():
                if tag not in ("step", "time"):
                    expected.setdefault(tag, []).append((int(line["time"] * 1e3), value, line["step"]))
        found = {}
        for file in (path for path in (folder / "metrics").rglob("*") if path.is_file()):
            rows = (row.split() for row in file.read_text().splitlines())
            found[str(file.relative_to(folder / "metrics"))] = [(int(time), float(value), int(step)) for time, value, step in rows]
        self.assertEqual(expected, found)

    def check_prometheus(self, text, line):
        """Against the collector of clusters, which reads metrics.jsonl itself."""
        collector = product.TOP / "cluster" / "parallelcluster" / "metrics_textfile.py"
        self.command(sys.executable, collector, "--runs", ".", "--output", "all.prom")

        def samples(page):
            return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value
                    for family in text_string_to_metric_families(page) for sample in family.samples}
        mine, collected = samples(text), samples((self.folder / "all.prom").read_text())
        time = ("echelon_last_line_timestamp_seconds", (("run", "run"),))
        self.assertEqual(mine.pop(time), line["time"])
        self.assertAlmostEqual(collected.pop(time), line["time"], delta=60)  # the file's
        self.assertEqual(collected, mine)
        self.assertEqual(line["breakdown_s"]["compute"], mine["echelon_step_part_seconds", (("part", "compute"), ("run", "run"))])
        self.assertEqual(line["unit_grad_norms"]["lm_head"], mine["echelon_unit_gradient_norm", (("run", "run"), ("unit", "lm_head"))])

    def test_every_reader_finds_every_step_once(self):
        lines = self.resumed_run()
        run = self.folder / "run"
        self.check_tensorboard(run / "tensorboard", lines)
        self.assertEqual(2, len(list((run / "tensorboard").iterdir())), "an event file for each start")
        self.check_csv((run / "metrics.csv").read_text(), lines)
        self.check_prometheus((run / "metrics.prom").read_text(), lines[-1])

        self.check_csv(self.exported("--to", "csv"), lines)
        self.exported("--to", "csv", "-o", "table.csv")
        self.check_csv((self.folder / "table.csv").read_text(), lines)
        self.assertEqual((run / "metrics.prom").read_text(), self.exported("--to", "prometheus"))
        for _ in range(2):  # the second in place of the first
            self.check_wandb(self.folder / self.exported("--to", "wandb").strip(), lines)
            self.check_mlflow(self.folder / self.exported("--to", "mlflow", "-o", "store").strip(), lines)
        self.assertEqual(1, len(list((run / "wandb").iterdir())))
        self.assertEqual(["meta.yaml", ""], sorted((path.name if path.is_file() else "" for path in (self.folder / "store").glob("*/*")), reverse=True))
        self.exported("--to", "tensorboard", "-o", "elsewhere")
        self.check_tensorboard(self.folder / "elsewhere", lines)
        self.exported("--to", "tensorboard")  # beside what the run wrote, of which nothing is left
        self.check_tensorboard(run / "tensorboard", lines)

    def test_a_line_says_where_the_time_went(self):
        self.train(self.recipe(**{"train.steps": 4, **EXPORTS}), ranks=2)
        forecast = json.loads((self.folder / "run" / "forecast.json").read_text())
        for line in self.metrics():
            spread = line["spread"]
            mean = sum(spread["step_time_s"][key] for key in ("min", "max")) / 2  # of two ranks
            self.assertTrue(math.isclose(mean, sum(line["breakdown_s"].values()), rel_tol=1e-9))
            self.assertTrue(all(value >= 0 for value in line["breakdown_s"].values()), line["breakdown_s"])
            for name in ("step_time_s", "comm_wait_s", "data_wait_s", "peak_rss_bytes"):
                self.assertEqual(line[name], spread[name]["max"])
            for value in spread.values():
                self.assertTrue(value["min"] <= value["median"] <= value["max"] and value["max_rank"] in (0, 1))
            self.assertEqual(forecast["measured"]["memory"]["categories"].keys(), line["memory_bytes"].keys())
            self.assertTrue(math.isclose(line["grad_norm"] ** 2, sum(n * n for n in line["unit_grad_norms"].values()),
                                         rel_tol=1e-9))
            # The file's wire format, not only what the reader makes of it.
        records = next((self.folder / "run" / "tensorboard").iterdir()).read_bytes()
        length = struct.unpack("<Q", records[:8])[0]
        self.assertEqual("brain.Event:2", Event.FromString(records[12:12 + length]).file_version)

    def test_norms_of_units_do_not_depend_on_ranks(self):
        for ranks, strategy in ((1, "no_shard"), (2, "full_shard"), (2, "no_shard"), (3, "shard_grad_op")):
            self.train(self.recipe(**{"run.dir": f"run{ranks}{strategy}", "train.steps": 2, "schedule.warmup_steps": 1, "train.clip_grad_norm": 0, "metrics.unit_grad_norms": True,
                                      "shard.strategy": strategy, "train.clip_grad_value": 1e-6}), ranks=ranks)
        runs = [self.metrics(run) for run in ("run1no_shard", "run2full_shard", "run2no_shard", "run3shard_grad_op")]
        self.assertEqual(5, len(runs[0][0]["unit_grad_norms"]))
        for run in runs[1:]:
            for one, other in zip(runs[0], run):
                self.assertEqual(one["unit_grad_norms"].keys(), other["unit_grad_norms"].keys())
                for unit, norm in one["unit_grad_norms"].items():
                    self.assertTrue(math.isclose(norm, other["unit_grad_norms"][unit], rel_tol=1e-4), f"{unit}: {norm}, {other}")
        self.assertNotIn("unit_grad_norms", self.lines_without())

    def lines_without(self):
        self.train(self.recipe(**{"run.dir": "plain", "train.steps": 1, "schedule.warmup_steps": 1}))
        return self.metrics("plain")[0]


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *rest])
