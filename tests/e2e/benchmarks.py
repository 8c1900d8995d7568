"""The benchmarks' harness: one runs from end to end, its file is checked, and the pages show what the files hold.

No time is judged here. The pages are compared with what the generator makes of docs/bench, so that no figure can stand on
them that is in no file.
"""
import json
import pathlib
import re
import shutil
import signal
import sys

import product

BENCH = product.TOP / "tests/bench/bench.py"
DATA = pathlib.Path("docs/bench")
sys.path.insert(0, str(BENCH.parent))

import bench
import form
import page


class Tests(product.Case):
    def copy(self):
        """The pages and their data, to be changed."""
        for path, _ in page.TEMPLATES.values():
            (self.folder / path).parent.mkdir(exist_ok=True)
            shutil.copy(product.TOP / path, self.folder / path)
        shutil.copytree(product.TOP / DATA, self.folder / DATA)

    def change(self, path, old, new):
        text = (self.folder / path).read_text()
        self.assertIn(old, text)
        (self.folder / path).write_text(text.replace(old, new, 1))

    def differences(self):
        return list(page.differences(self.folder, bench.NAMES))

    def refused(self, *words):
        """The generator ends with one line that has all these words."""
        with self.assertRaises(SystemExit) as ended:
            page.render(self.folder, bench.NAMES)
        self.assertNotIn("\n", str(ended.exception))
        for word in words:
            self.assertIn(word, str(ended.exception))

    def changed_document(self, name, change):
        path = self.folder / DATA / f"{name}.json"
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    def test_a_benchmark_runs_and_its_file_is_in_the_one_form(self):
        python = product.TOP / ".venv-test/bin/python"
        said = self.command(python, BENCH, "launch", "--smoke", "--output", self.folder, "--echelon", product.ECHELON).out
        document = form.read(self.folder / "launch.json")
        self.assertTrue(document["complete"])
        self.assertEqual("smoke", document["mode"])
        (case,) = document["cases"]
        (round_,) = case["rounds"]
        ours, peer = (round_[side]["first_step_s"] for side in ("echelon", "torchrun"))
        self.assertAlmostEqual(peer / ours, case["ratios"][0]["median"], places=4)
        self.assertIn(" train recipes/smoke.yaml --ranks 2 ", case["commands"]["echelon"][0])
        self.assertGreater(document["machine"]["cores"], 0)
        for package in ("compiler", "libtorch", "Open MPI", "HDF5", "torch (Python)"):
            self.assertRegex(document["versions"][package], r"\d")
        self.assertIn("launch.json", said)
        self.command(python, BENCH, "--publish", "launch", "--output", self.folder, code=1)

    def test_a_peer_that_fails_is_left_out_and_reported(self):
        # A Python without torch to run the peer with.
        self.command(sys.executable, "-m", "venv", "--without-pip", "venv")
        said = self.command("venv/bin/python", BENCH, "launch", "--smoke", "--output", self.folder, "--echelon", product.ECHELON).out
        document = form.read(self.folder / "launch.json")
        self.assertEqual(["echelon"], list(document["cases"][0]["summary"]))
        self.assertEqual([], document["cases"][0]["ratios"])
        told = "launch: torchrun + gloo, empty job failed and is left out: "
        self.assertTrue(any(note.startswith(told) and "torch" in note for note in document["notes"]), document["notes"])
        self.assertIn(told, said)

    def test_what_is_interrupted_keeps_its_rounds_and_leaves_no_process(self):
        self.command(sys.executable, "-m", "venv", "--without-pip", "venv")  # without torch the peer ends at once
        running = self.start("venv/bin/python", BENCH, "launch", "--rounds", 1000, "--output", self.folder, "--echelon", product.ECHELON)
        result = self.folder / "launch.json"
        self.wait_for("a first round", result.exists)
        running.send_signal(signal.SIGTERM)
        running.wait(product.WAIT_S)
        self.assertIn("bench: ended by SIGTERM", self.stderr_of_started())
        document = form.read(result)
        self.assertFalse(document["complete"])
        self.assertGreaterEqual(len(document["cases"][0]["rounds"]), 1)
        self.assertEqual([], list(self.folder.glob("scratch-*")))

    def test_a_failure_of_ours_fails_the_benchmark(self):
        (self.folder / "echelon").write_text("#!/bin/sh\necho no such key >&2\nexit 2\n")
        (self.folder / "echelon").chmod(0o755)
        failed = self.command(sys.executable, BENCH, "launch", "--smoke", "--output", self.folder, "--echelon", "echelon", code=1)
        self.assertIn("failed: echelon train ended with 2: no such key", failed.err)
        self.assertFalse((self.folder / "launch.json").exists())

    def test_the_pages_are_what_the_generator_makes_of_the_files(self):
        self.assertEqual([], list(page.differences(product.TOP, bench.NAMES)))

    def test_a_figure_changed_by_hand_is_found(self):
        self.copy()
        self.assertEqual([], self.differences())
        for path in ("docs/benchmarks.md", "README.md", "docs/tuning.md", "docs/bench/train_llama-step_s.svg"):
            before = (self.folder / path).read_text()
            number = max(re.findall(r"\d+\.\d+", page.BEGIN.join(before.split(page.BEGIN)[-1:])), key=len)
            (self.folder / path).write_text(before.replace(number, "0.07"))
            self.assertEqual([f"{path}: not what ./make.sh bench --page makes of docs/bench"], self.differences())
            (self.folder / path).write_text(before)
        (self.folder / DATA / "old.svg").write_text("<svg/>")
        self.assertEqual(["docs/bench/old.svg: no page shows it"], self.differences())

    def test_a_template_with_a_number_of_its_own_is_refused(self):
        self.copy()
        self.change("docs/bench/benchmarks.md.in", "## Launch\n", "## Launch\nIt is 11.2 times as fast.\n")
        self.refused("benchmarks.md.in:", "the number 11.2 stands in no file")

    def test_a_template_that_names_what_does_not_exist_is_refused(self):
        for text, *words in (("{{table nothing}}", "nothing.json"), ("{{tabel launch}}", "no insert 'tabel'"),
                             ("{{ratio launch launch torchrun}}", "too many words or too few"), ("{{fact launch size}}", "no fact 'size'"),
                             ("{{table launch size}}", "no metric 'size'"), ("{{median launch launch nobody first_step_s}}", "nobody"),
                             ("`./make.sh bench lunch`", "no benchmark 'lunch'")):
            self.copy()
            self.change("docs/bench/benchmarks.md.in", "## Launch\n", f"## Launch\n{text}\n")
            self.refused(*words)
            shutil.rmtree(self.folder / DATA)

    def test_files_that_are_not_in_the_one_form_are_refused(self):
        self.copy()
        good = (self.folder / DATA / "launch.json").read_text()

        def changed(words, change):
            self.changed_document("launch", change)
            self.refused("launch.json", words)
            (self.folder / DATA / "launch.json").write_text(good)

        changed("lacks 'machine'", lambda document: document.pop("machine"))
        changed("has no field 'speed'", lambda document: document.update(speed=2))
        changed("'notes' is a str", lambda document: document.update(notes="quiet"))
        changed("expected YYYY-MM-DD", lambda document: document.update(measured="yesterday"))
        changed("schema 2, expected 1", lambda document: document.update(schema=2))
        changed("no side 'torchrum'", lambda document: document["cases"][0]["summary"].update(torchrum={}))
        changed("smoke run measures nothing", lambda document: document.update(mode="smoke"))
        changed("holds the benchmark 'lunch'", lambda document: document.update(name="lunch"))
        # Figures of this program follow from samples: what was not copied from an old page cannot be without them.
        changed("has no rounds", lambda document: document.update(
            transcribed=False, commit="0123456789", cases=[{**case, "rounds": []} for case in document["cases"]]))
        (self.folder / DATA / "launch.json").write_text("{")
        self.refused("launch.json", "Expecting")
        (self.folder / DATA / "launch.json").rename(self.folder / DATA / "lunch.json")
        (self.folder / DATA / "lunch.json").write_text(good.replace('"name": "launch",\n "what"', '"name": "lunch",\n "what"'))
        self.refused("there is no benchmark 'lunch'")

    def test_what_is_not_known_is_an_error(self):
        for arguments, words in ((["lunch"], "no benchmark 'lunch'"), (["launch", "--case", "x", "--rounds", "0"], "--rounds needs"),
                                 (["--case", "x"], "--case belongs to one NAME"), (["--publish", "comm", "--output", self.folder], "comm.json"),
                                 (["--publish", "--output", self.folder], "has no results"), (["launch", "--echelon", "gone"], "gone is missing")):
            code = 1 if arguments[0] == "--publish" else 2
            self.assertIn(words, self.command(sys.executable, BENCH, *arguments, code=code).err)

    def measured(self, name):
        """A result as a run of today writes it, with the sides of a case of docs/bench."""
        document = json.loads((product.TOP / DATA / f"{name}.json").read_text())
        (side, metric), *_ = [(side, next(iter(values))) for side, values in document["cases"][0]["summary"].items()]
        peer = next(other for other in document["cases"][0]["sides"] if other != side)
        case = {**document["cases"][0], "commands": {side: ["true"], peer: ["true"]}, "summary": {}, "ratios": [], "others_cores": [0.0, 0.0],
                "rounds": [{side: {metric: 1.0}, peer: {metric: 3.0}}, {side: {metric: 2.0}, peer: {metric: 4.0}}]}
        document.update(transcribed=False, commit="0123456789", dirty=True, measured="2026-11-24T07:30:00Z", cases=[case], notes=["quiet"],
                        command=f"./make.sh bench {name}")
        (self.folder / "results").mkdir(exist_ok=True)
        form.write(self.folder / "results" / f"{name}.json", document)
        return document

    def test_a_changed_ratio_does_not_pass_for_a_measured_one(self):
        document = self.measured("comm")
        self.assertEqual([], form.faults(form.read(self.folder / "results/comm.json")))
        (case,) = document["cases"]
        (ratio,) = case["ratios"]
        self.assertEqual(([3.0, 2.0], 2.5, 2.0, 3.0), (ratio["pairs"], ratio["median"], ratio["min"], ratio["max"]))
        self.assertEqual({"median": 1.5, "min": 1.0, "max": 2.0}, case["summary"]["echelon"]["s"])
        ratio["median"] = 2.9
        self.assertEqual(["case 'all_gather_fp32': the ratios are not what follows from the rounds"], form.faults(document))

    def test_a_published_result_is_shown_and_one_that_breaks_a_page_is_taken_back(self):
        self.copy()
        self.measured("comm")
        page.publish(self.folder, self.folder / "results", [], bench.NAMES)
        text = (self.folder / "docs/benchmarks.md").read_text()
        self.assertIn("`./make.sh bench comm`: 2026-11-24 on machine A; commit 0123456789 with changes; 2 rounds; quiet.", text)
        self.assertIn("| all-gather, fp32 | 1.5 s | 3.5 s | 2.50 (2.00 to 3.00) |", text)
        self.assertEqual([], self.differences())
        self.measured("train_llama")
        path = self.folder / "results/train_llama.json"
        path.write_text(path.read_text().replace('"least_step_s"', '"most_step_s"'))
        with self.assertRaises(SystemExit) as ended:
            page.publish(self.folder, self.folder / "results", ["train_llama"], bench.NAMES)
        self.assertIn("no fact 'least_step_s'", str(ended.exception))
        self.assertEqual([], self.differences())


if __name__ == "__main__":
    product.main()
