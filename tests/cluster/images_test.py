"""docker/ as it is: no finding of hadolint, base images by digest, nothing runs as root, one list of versions."""
import re
import unittest

import rules
import tools
from tools import TOP

DOCKERFILES = sorted((TOP / "docker").glob("*.Dockerfile"))


class Images(unittest.TestCase):
    def test_hadolint_has_no_finding(self):
        self.assertEqual([path.name for path in DOCKERFILES], ["cpu.Dockerfile", "cuda.Dockerfile"])
        for path in DOCKERFILES:
            with self.subTest(path.name):
                self.assertEqual(tools.dockerfile(path.read_text()), [])
                self.assertEqual(list(rules.image(path.read_text())), [])

    def test_what_a_build_copies_is_let_through_to_it(self):
        for path in DOCKERFILES:
            allowed = path.with_name(path.name + ".dockerignore").read_text()
            for copied in re.findall(r"^COPY (?!--from)(.*) \S+$", path.read_text(), re.M):
                for name in copied.split():
                    if name != ".":
                        with self.subTest(path.name, copied=name):
                            self.assertTrue((TOP / name).exists())
                            self.assertIn(f"!{name.split('/')[0]}\n", allowed)

    def test_versions_of_the_wheels_are_those_of_the_set_up(self):
        wheels = set(re.search(r"TORCH_WHEELS=\((.*?)\)", (TOP / "tools/setup.sh").read_text(), re.S)[1].split())
        pins = {line.partition("#")[0].strip() for line in (TOP / rules.CUDA_PINS).read_text().splitlines() if "==" in line}
        names = {pin.split("==")[0] for pin in pins}
        for wheel in wheels:
            if wheel.split("==")[0] in names:
                self.assertIn(wheel, pins)
        self.assertIn("nvidia-nccl-cu13", names)

    def test_a_cluster_node_gets_the_packages_of_the_set_up(self):
        listed = {}
        for name, arrays in (("tools/packages.sh", "(?:BUILD|RUN)_PACKAGES"),
                             ("cluster/parallelcluster/node_setup.sh", "(?:LIBRARY|COMPILER)_PACKAGES")):
            text = (TOP / name).read_text()
            listed[name] = {word for match in re.finditer(rf"{arrays}=\((.*?)\)", text, re.S) for word in match[1].split()}
        expected, found = listed.values()
        self.assertEqual(found - {"git"}, expected)


if __name__ == "__main__":
    unittest.main()
