"""metrics_textfile.py: what it writes is read back by Prometheus's own parser; what users leave in run folders harms nothing."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from prometheus_client.parser import text_string_to_metric_families

CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "cluster" / "parallelcluster"
PROGRAM = CLUSTER / "metrics_textfile.py"
LINE = {"step": 40, "loss": 2.5, "lr": 1e-3, "grad_norm": 0.5, "epoch": 0.1, "time": 1772364600.125,
        "tokens": 163840, "samples": 160, "tokens_per_s": 1234.5, "samples_per_s": 4.0,
        "step_time_s": 0.25, "comm_wait_s": 0.01, "data_wait_s": 0.0, "skipped_steps": 0, "mfu": None,
        "peak_rss_bytes": 123456789012, "peak_device_bytes": 0,
        "tensor_peak_bytes": 3456789012, "sent_bytes": 1048576, "validation_loss": 2.25,
        "breakdown_s": {"compute": 0.2, "other": 0.05}, "memory_bytes": {"weights": 4096},
        "spread": {"work_s": {"min": 0.1, "median": 0.15, "max": 0.2, "max_rank": 3}}, "unit_grad_norms": {"root": 0.5}}


class Metrics(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runs = pathlib.Path(folder.name) / "runs"
        self.runs.mkdir()
        self.output = pathlib.Path(folder.name) / "echelon.prom"

    def write(self, run, *lines):
        path = self.runs / run / "metrics.jsonl"
        path.parent.mkdir()
        path.write_bytes(b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines))
        return path

    def samples(self, *arguments):
        """{(metric, run): value} as Prometheus reads the file."""
        result = subprocess.run([sys.executable, PROGRAM, "--runs", self.runs, "--output", self.output, *arguments],
                                capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        return {(sample.name, sample.labels["run"]): sample.value
                for family in text_string_to_metric_families(self.output.read_text()) for sample in family.samples}

    def test_gives_the_newest_line_of_every_run(self):
        path = self.write("a", LINE | {"step": 20}, LINE)
        self.write("b", LINE | {"step": 7, "loss": 9.0})
        samples = self.samples()
        self.assertEqual((samples["echelon_step", "a"], samples["echelon_step", "b"]), (40, 7))
        self.assertEqual((samples["echelon_loss", "a"], samples["echelon_validation_loss", "a"]), (2.5, 2.25))
        self.assertEqual(samples["echelon_peak_rss_bytes", "a"], 123456789012)
        self.assertEqual((samples["echelon_tokens", "a"], samples["echelon_samples", "a"]), (163840, 160))
        self.assertEqual(samples["echelon_last_line_timestamp_seconds", "a"], path.stat().st_mtime)
        self.assertNotIn(("echelon_model_flops_utilization", "a"), samples)  # null
        self.assertEqual(self.output.stat().st_mode & 0o777, 0o644)
        self.assertEqual(sorted(os.listdir(self.output.parent)), ["echelon.prom", "runs"])

    def test_leaves_out_torn_and_foreign_lines(self):
        self.write("torn", LINE, b'{"step": 60, "lo')
        self.write("foreign", LINE, b"[1]\n", b"\xff\xff\n", b'"text"\n', b'{"step": "70"}\n', b"[" * 50000 + b"\n")
        self.write("without", b"no line of JSON\n")
        self.write("empty")
        samples = self.samples()
        self.assertEqual({run for _, run in samples}, {"torn", "foreign"})
        self.assertEqual((samples["echelon_step", "torn"], samples["echelon_step", "foreign"]), (40, 40))

    def test_values_that_are_not_finite_are_left_out(self):
        self.write("nan", b'{"step": 1, "loss": NaN, "lr": Infinity, "grad_norm": true, "mfu": 0.5}\n')
        samples = self.samples()
        self.assertEqual({name for name, _ in samples},
                         {"echelon_step", "echelon_model_flops_utilization", "echelon_last_line_timestamp_seconds"})

    def test_a_name_cannot_break_out_of_its_label(self):
        name = 'x"} 1 \\ {"'
        self.write(name, LINE)
        self.write("two\nlines", LINE)
        self.assertEqual({run for _, run in self.samples()}, {name})

    def test_old_runs_disappear(self):
        path = self.write("old", LINE)
        day_ago = time.time() - 90000
        os.utime(path, (day_ago, day_ago))
        self.write("new", LINE)
        self.assertEqual({run for _, run in self.samples()}, {"new"})
        self.assertEqual({run for _, run in self.samples("--max-age-s", "100000")}, {"new", "old"})

    def test_follows_no_links_and_opens_no_pipes(self):
        target = self.write("real", LINE)
        (self.runs / "link").symlink_to(target.parent)
        (self.runs / "file").mkdir()
        (self.runs / "file" / "metrics.jsonl").symlink_to(target)
        (self.runs / "pipe").mkdir()
        os.mkfifo(self.runs / "pipe" / "metrics.jsonl")
        self.assertEqual({run for _, run in self.samples()}, {"real"})

    def test_reads_only_the_end_of_a_long_file(self):
        self.write("long", *([LINE | {"step": step} for step in range(2000)]))
        self.assertEqual(self.samples()["echelon_step", "long"], 1999)

    def test_numbers_of_an_object_have_a_label(self):
        self.write("a", LINE | {"unit_grad_norms": {'x"} 1': 0.25, "two\nlines": 1, "text": "1"}, "breakdown_s": 3, "spread": {"work_s": 1}})
        self.write("c", LINE | {"eval/piqa/acc": 0.5, "validation_loss/code": 1.5, "validation_loss/web": None, "rewards/margins": -1.0})
        self.write("b", LINE)
        self.samples()
        found = {(sample.name, *sample.labels.values()): sample.value
                 for family in text_string_to_metric_families(self.output.read_text()) for sample in family.samples}
        self.assertEqual({key for key in found if key[0] == "echelon_unit_gradient_norm"},
                         {("echelon_unit_gradient_norm", "a", 'x"} 1'), ("echelon_unit_gradient_norm", "b", "root"),
                          ("echelon_unit_gradient_norm", "c", "root")})
        self.assertEqual((found["echelon_step_part_seconds", "b", "compute"], found["echelon_memory_bytes", "b", "weights"]), (0.2, 4096))
        self.assertEqual((found["echelon_rank_work_seconds", "b", "max"], found["echelon_slowest_rank", "b"]), (0.2, 3))
        self.assertEqual({key[1:]: value for key, value in found.items() if key[0] == "echelon_source_validation_loss"}, {("c", "code"): 1.5})
        self.assertEqual((found["echelon_evaluation_score", "c", "piqa/acc"], found["echelon_reward", "c", "margins"]), (0.5, -1.0))
        self.assertNotIn(("echelon_rank_work_seconds", "b", "max_rank"), found)
        self.assertNotIn(("echelon_slowest_rank", "a"), found)

    def test_a_number_of_many_digits_is_left_out(self):
        self.write("huge", b'{"step": 1, "loss": 1' + b"0" * 400 + b"}\n")
        self.assertEqual({name for name, _ in self.samples()}, {"echelon_step", "echelon_last_line_timestamp_seconds"})

    def test_every_panel_of_the_dashboard_shows_an_exported_metric(self):
        sys.path.insert(0, str(CLUSTER))
        import metrics_textfile
        rows = [row.split(" | ") for row in metrics_textfile.NAMES.strip().splitlines()]
        labels = {name.partition("{")[0]: {"run", *filter(None, [name.rstrip("}").partition("{")[2]])} for _, name, _ in rows}
        self.assertEqual(len(labels), len(rows), "a name twice")
        board = json.loads((CLUSTER / "grafana.json").read_text())
        queries = [(target["expr"], target["legendFormat"]) for panel in board["panels"] for target in panel["targets"]]
        queries += [(variable["query"]["query"], "") for variable in board["templating"]["list"] if variable["type"] == "query"]
        self.assertGreater(len(queries), 10)
        for expression, legend in queries:
            named = re.findall(r"echelon_[a-z_]+", expression)
            self.assertEqual(len(named), 1, expression)
            self.assertIn(named[0], labels, expression)
            self.assertLessEqual(set(re.findall(r"{{(\w+)}}", legend)), labels[named[0]], legend)
            self.assertEqual(expression.count("("), expression.count(")"))
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))

    def test_without_runs_the_file_is_empty(self):
        self.runs.rmdir()
        self.assertEqual(self.samples(), {})

    def test_wrong_use_is_reported(self):
        for output, code in (("x.txt", 2), (self.runs / "missing" / "x.prom", 3)):
            result = subprocess.run([sys.executable, PROGRAM, "--runs", self.runs, "--output", output], capture_output=True)
            self.assertEqual(result.returncode, code)


if __name__ == "__main__":
    unittest.main()
