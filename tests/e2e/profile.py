"""echelon train --profile: the trace of all ranks on one clock, and what the summary makes of it."""
import collections
import json
import shutil

import product

# Phases of the Trace Event Format (documented by its authors in "Trace Event Format") that a profile uses, and their keys.
SCHEMA = {"X": {"ph", "cat", "name", "pid", "tid", "ts", "dur"}, "M": {"ph", "name", "pid", "tid", "args"}}
LANES = {"compute", "gather", "reduce", "data", "save", "copy"}


class Tests(product.Case):
    def profiled(self, *arguments, ranks=2, **keys):
        self.train(self.recipe(**{"train.steps": 8, "model.layers": 2, **keys}), *arguments, ranks=ranks)
        return {name: json.loads((self.folder / "run" / "profile" / f"{name}.json").read_text())
                for name in ("trace", "summary", "lanes")}

    def spans(self, trace):
        """{(rank, lane): spans in the order of their beginning, outer ones first}, of events that the format allows."""
        lanes = collections.defaultdict(list)
        for event in trace["traceEvents"]:
            self.assertEqual(SCHEMA[event["ph"]], event.keys() - ({"args"} if event["ph"] == "X" else set()))
            if event["ph"] == "X":
                self.assertTrue(event["ts"] >= 0 and event["dur"] >= 0, event)
                lanes[event["pid"], event["tid"]].append(event)
        return {key: sorted(found, key=lambda event: (event["ts"], -event["dur"])) for key, found in lanes.items()}

    def check_nesting(self, lanes):
        for key, spans in lanes.items():
            open_ends = []
            for span in spans:
                end = span["ts"] + span["dur"]
                while open_ends and open_ends[-1] <= span["ts"] + 0.002:  # times are written in nanoseconds
                    open_ends.pop()
                self.assertTrue(not open_ends or end <= open_ends[-1] + 0.002, f"{key}: {span} crosses {open_ends}")
                open_ends.append(end)

    def check_exposed(self, lanes, summary, steps):
        """What the trace shows as waiting, the summary's number and the engine's own account."""
        waits = [span["dur"] for spans in lanes.values() for span in spans if span["cat"] in ("gather wait", "reduce wait")]
        exposed_s = sum(waits) * 1e-6 / (steps * summary["ranks"])
        self.assertAlmostEqual(exposed_s, summary["comm_wait_s"], delta=0.01 * exposed_s)
        self.assertAlmostEqual(summary["engine_comm_wait_s"], summary["comm_wait_s"], delta=0.1 * exposed_s)
        for rank in summary["by_rank"]:
            self.assertAlmostEqual(rank["engine_comm_wait_s"], rank["comm_wait_s"], delta=0.1 * rank["comm_wait_s"])

    def test_two_ranks_on_one_clock(self):
        files = self.profiled("--profile", "3..5", **{"checkpoint.every_steps": 4, "train.global_batch_size": 4,
                                                      "activation_checkpointing.policy": "full"})
        lanes, summary = self.spans(files["trace"]), files["summary"]
        self.check_nesting(lanes)
        self.check_exposed(lanes, summary, 3)
        self.assertEqual([3, 5], summary["steps"])
        self.assertAlmostEqual(summary["step_s"], sum(value for key, value in summary["parts_s"].items() if key != "save_stall"),
                               delta=1e-6)
        kinds = collections.Counter(span["cat"] for spans in lanes.values() for span in spans)
        self.assertEqual(2 * 3, kinds["step"])
        # Two micro-batches of a step; blocks are recomputed; every unit has a forward and a backward.
        units = len({span["name"] for spans in lanes.values() for span in spans if span["cat"] == "forward"})
        self.assertEqual(2 * 3 * 2 * units, kinds["forward"])
        self.assertEqual(kinds["forward"], kinds["backward"])
        self.assertEqual(2 * 3 * 2 * 2, kinds["recompute"])
        self.assertGreater(kinds["save stall"] * kinds["save"], 0)
        # Both processes read the same clock here: what is left is the error of the measurement.
        for rank in summary["by_rank"]:
            self.assertLessEqual(abs(rank["clock_offset_us"]), rank["clock_uncertainty_us"] + 1e-6)
        # Every collective of one rank is also one of the other, and no rank ends one before the other began.
        gathers = [[span for span in lanes[rank, 1] if span["cat"] == "gather"] for rank in (0, 1)]
        self.assertEqual([span["name"] for span in gathers[0]], [span["name"] for span in gathers[1]])
        slack = 2 * summary["clock_uncertainty_us"] + 1
        for one, other in zip(*gathers):
            self.assertLessEqual(max(one["ts"], other["ts"]), min(one["ts"] + one["dur"], other["ts"] + other["dur"]) + slack)
        self.assertEqual({span["args"]["bytes"] for span in gathers[0] if span["name"] == gathers[0][0]["name"]},
                         {gathers[0][0]["args"]["bytes"]})
        self.check_lanes(files["lanes"], lanes)
        text = (self.folder / "run" / "profile" / "summary.txt").read_text()
        self.assertIn("steps 3 to 5 of 2 ranks", text)
        self.assertIn("no forecast of this run", text)
        self.assertEqual(["lanes.json", "summary.json", "summary.txt", "trace.json"],
                         sorted(path.name for path in (self.folder / "run" / "profile").iterdir()))

    def check_lanes(self, drawn, lanes):
        self.assertLess((self.folder / "run" / "profile" / "lanes.json").stat().st_size, 200_000)
        self.assertEqual([3, 5], drawn["steps"])
        for rank in drawn["ranks"]:
            self.assertLessEqual({lane["name"] for lane in rank["lanes"]}, LANES)
            compute = next(lane["spans"] for lane in rank["lanes"] if lane["name"] == "compute")
            for (begin, duration, _), (following, _, _) in zip(compute, compute[1:]):
                self.assertLessEqual(begin + duration, following + 0.2)
            last = max(span["ts"] + span["dur"] for span in lanes[rank["rank"], 0])
            self.assertLessEqual(compute[-1][0] + compute[-1][1], last + 0.2)

    def test_validations_are_of_no_step(self):
        self.prepare()
        files = self.profiled("--profile", "3..6", **{
            **product.ON_TOKENS, "train.steps": 8, "data.validation.path": "data/valid.tok", "data.validation.batches": 4, "train.validate_every_steps": 2})
        summary, lanes = files["summary"], self.spans(files["trace"])
        self.check_exposed(lanes, summary, 4)
        self.assertAlmostEqual(summary["step_s"], sum(summary["parts_s"].values()), delta=1e-6)
        self.assertNotIn("validation", {row["of"] for row in summary["beside"]})

    def test_a_run_that_ends_before_the_range_does(self):
        files = self.profiled("--profile", "7..20", ranks=1)
        self.assertEqual([7, 8], files["summary"]["steps"])
        self.check_nesting(self.spans(files["trace"]))
        self.assertEqual(0, files["summary"]["comm_wait_s"] > 0.01 * files["summary"]["step_s"])

    def test_steps_of_a_run_that_goes_on(self):
        recipe = self.recipe(**{"train.steps": 4})
        self.train(recipe)
        result = self.train(recipe, "train.steps=6", "--profile", "2..3")
        self.assertIn("these steps are done already", result.err)
        result = self.train(recipe, "train.steps=8", "--profile", "5..7")
        summary = json.loads((self.folder / "run" / "profile" / "summary.json").read_text())
        self.assertEqual([7, 7], summary["steps"])

    def test_ranges_that_make_no_sense_are_refused(self):
        recipe = self.recipe(**{"train.steps": 4})
        for text in ("0..3", "5..4", "1..200", "a..b", "3..", "..3", "1...3", "-1..2"):
            result = self.command(*self.train_command(recipe, f"--profile={text}"), code=2)
            self.assertIn(f"--profile {text}: expected the first and the last step", result.err)
        result = self.train(recipe, "--profile", "5..6", code=2)
        self.assertIn("the run ends with step 4", result.err)
        self.assertFalse((self.folder / "run" / "profile").exists())

    def test_a_profile_that_cannot_be_written_stops_nothing(self):
        (self.folder / "run").mkdir()
        (self.folder / "run" / "profile").write_text("in the way")
        result = self.train(self.recipe(**{"train.steps": 4}), "--profile", "2..3", ranks=2)
        self.assertIn("the profile", result.err)
        self.assertEqual(4, len(self.metrics()))

    def test_perfetto_reads_the_trace(self):
        shell = shutil.which("trace_processor_shell")
        if not shell:
            self.skipTest("Perfetto's trace_processor_shell is not installed: no package registry has the program, and the "
                          "Python package fetches it from elsewhere; test_two_ranks_on_one_clock checks the documented format")
        self.profiled("--profile", "3..5")
        (self.folder / "query.sql").write_text("select count(*) as spans from slice where category = 'step';\n")
        result = self.command(shell, "-q", "query.sql", "run/profile/trace.json")
        self.assertIn("6", result.out.splitlines()[-1])


if __name__ == "__main__":
    product.main()
