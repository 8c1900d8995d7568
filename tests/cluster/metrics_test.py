"""metrics_textfile.py: what it writes is read back by Prometheus's own parser; what users leave in run folders harms nothing."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from prometheus_client.parser import text_string_to_metric_families

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "cluster" / "parallelcluster" / "metrics_textfile.py"
LINE = {"step": 40, "loss": 2.5, "lr": 1e-3, "grad_norm": 0.5, "epoch": 0.1, "time": 1772364600.125,
        "tokens": 163840, "samples": 160, "tokens_per_s": 1234.5, "samples_per_s": 4.0,
        "step_time_s": 0.25, "comm_wait_s": 0.01, "data_wait_s": 0.0, "skipped_steps": 0, "mfu": None,
        "peak_rss_bytes": 123456789012, "peak_device_bytes": 0,
        "tensor_peak_bytes": 3456789012, "sent_bytes": 1048576, "validation_loss": 2.25}


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

    def test_without_runs_the_file_is_empty(self):
        self.runs.rmdir()
        self.assertEqual(self.samples(), {})

    def test_wrong_use_is_told(self):
        for output, code in (("x.txt", 2), ("/nonexistent/x.prom", 3)):
            result = subprocess.run([sys.executable, PROGRAM, "--runs", self.runs, "--output", output], capture_output=True)
            self.assertEqual(result.returncode, code)


if __name__ == "__main__":
    unittest.main()
