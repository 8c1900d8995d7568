"""render.py as a program: what a user can get wrong is told in whole, in one line each, and nothing is written."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "cluster" / "parallelcluster" / "render.py"
IDS = {"AvailabilityZone": "us-east-2a", "PublicSubnet": "subnet-0123456789abcdef0", "PrivateSubnet": "subnet-0123456789abcdef1",
       "SecurityGroup": "sg-0123456789abcdef0", "FileSystem": "fs-0123456789abcdef0"}
SETTINGS = {"key_name": "me", "allowed_ips": "198.51.100.7/32", "bucket": "my-bucket", "nodes": "8"}
SUM = "0123456789abcdef" * 4


class Render(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.output = self.folder / "out.yaml"
        self.stack = self.write_stack(IDS)

    def write_stack(self, outputs):
        path = self.folder / "stack.json"
        pairs = [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()]
        path.write_text(json.dumps({"Stacks": [{"StackName": "network", "Outputs": pairs}]}))
        return str(path)

    def run_program(self, *queues, settings=None, more=()):
        given = SETTINGS if settings is None else settings
        arguments = [f"--set={name}={value}" for name, value in given.items()]
        return subprocess.run([sys.executable, PROGRAM, *queues, "--stack", self.stack, "--output", self.output, *arguments, *more],
                              capture_output=True, text=True)

    def refused(self, result, *parts):
        """Exit code 2, one line for each of `parts`, no output file."""
        self.assertEqual(result.returncode, 2, result.stderr)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), len(parts), result.stderr)
        for line, part in zip(lines, parts):
            self.assertTrue(line.startswith("render.py: "), line)
            self.assertIn(part, line)
        self.assertFalse(self.output.exists())

    def test_writes_a_configuration_and_says_what_to_upload(self):
        result = self.run_program("p5")
        self.assertEqual(result.returncode, 0, result.stderr)
        text = self.output.read_text()
        self.assertIn("Region: us-east-2\n", text)
        self.assertIn(f"FileSystemId: {IDS['FileSystem']}\n", text)
        uploads = re.findall(r"^  aws s3 cp \S+ (s3://my-bucket/echelon/\S+)$", result.stderr, re.M)
        self.assertEqual(len(uploads), 2)
        for upload in uploads:
            self.assertIn(upload, text)

    def test_names_all_unset_parameters_at_once(self):
        self.refused(self.run_program("p5_block", settings={}), "allowed_ips is not set", "bucket is not set",
                     "capacity_reservation is not set", "key_name is not set", "nodes is not set")

    def test_refuses_malformed_values(self):
        wrong = {"key_name": "a b", "bucket": "My_Bucket", "nodes": "0", "capacity_reservation": "cr-12",
                 "head_instance": "large"}
        for network in ("0.0.0.0/0", "198.51.100.7", "198.51.100.7/24", "anything"):
            with self.subTest(network):
                self.refused(self.run_program("p5_block", settings=wrong | {"allowed_ips": network}), "allowed_ips is",
                             "bucket is", "capacity_reservation is", "head_instance is", "key_name is", "nodes is")

    def test_a_value_cannot_bring_yaml_of_its_own(self):
        self.refused(self.run_program("p5", settings=SETTINGS | {"key_name": "me\n  DisableValidation: true"}), "key_name is")

    def test_refuses_unknown_and_repeated_names(self):
        result = self.run_program("p5", "p5", "p6_b20", more=["--set", "node=8", "--set", "nodes=9", "--set", "nodes"])
        self.refused(result, "no queue 'p6_b20'; did you mean p6_b200?", "queue 'p5' is named twice", "did you mean nodes?",
                     "--set nodes: given twice", "expected name=value")

    def test_refuses_a_parameter_that_no_queue_uses(self):
        self.refused(self.run_program("smoke"), "nodes is given, but none of the queues uses it")

    def test_monitoring_needs_its_sum_and_policy(self):
        self.refused(self.run_program("p5", settings=SETTINGS | {"monitoring": "v2.10"}), "monitoring_policy is not set",
                     "monitoring_sha256 is not set")
        self.refused(self.run_program("p5", settings=SETTINGS | {"monitoring": "main", "monitoring_sha256": SUM}),
                     "monitoring is 'main'", "monitoring_policy is not set")

    def test_refuses_a_stack_that_is_none(self):
        for text in ("", "[]", '{"Stacks": []}', '{"Stacks": [{}]}', "[" * 100000, '{"Stacks": [{"Outputs": [1]}]}'):
            pathlib.Path(self.stack).write_text(text)
            with self.subTest(text[:40]):
                self.refused(self.run_program("p5"), "stack")
        pathlib.Path(self.stack).write_bytes(b"\xff\xfe")
        self.refused(self.run_program("p5"), "is not the output of")
        pathlib.Path(self.stack).unlink()
        self.refused(self.run_program("p5"), "cannot read")

    def test_refuses_a_stack_with_a_missing_or_foreign_output(self):
        self.stack = self.write_stack({key: value for key, value in IDS.items() if key != "FileSystem"})
        self.refused(self.run_program("p5"), "file_system is not set: expected an FSx file system id")
        self.stack = self.write_stack(IDS | {"PublicSubnet": "vpc-0123456789abcdef0"})
        self.refused(self.run_program("p5"), "public_subnet is 'vpc-0123456789abcdef0'")

    def test_keeps_a_file_that_exists_unless_told(self):
        self.output.write_text("mine")
        result = self.run_program("p5")
        self.assertEqual((result.returncode, self.output.read_text()), (2, "mine"))
        self.assertIn("--force", result.stderr)
        self.assertEqual(self.run_program("p5", more=["--force"]).returncode, 0)
        self.assertIn("Region:", self.output.read_text())


class NodeSetup(unittest.TestCase):
    """Its options; what it does needs a node of a cluster."""

    def test_refuses_options_before_it_touches_the_node(self):
        exporter = ["--exporter", "s3://bucket/echelon/exporter.py"]
        for arguments, part in (
                ([], "--exporter ''"), (["--frobnicate", "x"], "unknown option '--frobnicate'"), (["--exporter"], "no value"),
                (["--exporter", "https://example.com/x.py", "--exporter-sha256", SUM], "expected s3://BUCKET/NAME"),
                ([*exporter, "--exporter-sha256", SUM[:-1]], "64 hexadecimal digits"),
                ([*exporter, "--exporter-sha256", SUM, "--monitoring", "main", "--monitoring-sha256", SUM], "a release like"),
                ([*exporter, "--exporter-sha256", SUM, "--monitoring", "v2.10"], "--monitoring-sha256 ''")):
            with self.subTest(arguments):
                result = subprocess.run([PROGRAM.with_name("node_setup.sh"), *arguments], capture_output=True, text=True)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertIn(part, result.stderr)

    def test_refuses_a_machine_that_is_no_node(self):
        arguments = ["--exporter", "s3://bucket/echelon/exporter.py", "--exporter-sha256", SUM]
        result = subprocess.run([PROGRAM.with_name("node_setup.sh"), *arguments], capture_output=True, text=True)
        self.assertEqual(result.returncode, 3)
        self.assertRegex(result.stderr, "not a node of an AWS ParallelCluster|must run as root")


if __name__ == "__main__":
    unittest.main()
