"""Tries the GPU half on the machine it is started on, in three stages that each end within nine minutes.

    device.sh 1 [2 [3]] [--results DIR]

Stage 1: what machine this is, the tests, the device's limits. Stage 2: losses beside the CPU's, every strategy,
several ranks on one GPU, save and resume, the 1.5 B Llama and FSDP2 beside it. Stage 3: what each choice costs.

What is learned lies in DIR/results.json (default: results beside this file), what the programs said in DIR/log.txt. A
stage that is started again does what is missing: first what was never tried, then what failed; what passed stays as it is,
unless --again. A step is not begun when too little is left of the stage's time, and one that the time cuts is unfinished.
Results of another bundle, device or kind of run are put aside. --only names steps. --trial runs the steps on the CPU with
tiny models: it tries this script, not a device.

Exit codes: 0 every step passed or was skipped, 1 one failed, 3 no device, 4 something is left: start the stage again.
"""
import argparse
import json
import os
import pathlib
import sys
import time
import traceback

import runs
import steps

STAGE_S = 525


class Results:
    """results.json: one entry a step, written after each. `of`: what the results are of."""

    def __init__(self, folder, of):
        self.path = folder / "results.json"
        self.content = json.loads(self.path.read_text()) if self.path.exists() else {}
        if self.content and self.content.get("of") != of:
            aside = self.path.with_name(f"results-before-{int(time.time())}.json")
            self.path.rename(aside)
            print(f"results of another bundle, device or kind of run are now in {aside.name}")
            self.content = {}
        self.content = self.content or {"format": 1, "of": of, "steps": {}}

    def of(self, step):
        return self.content["steps"].get(step.name, {})

    def note(self, step, entry):
        self.content["steps"][step.name] = entry
        draft = self.path.with_suffix(".tmp")
        draft.write_text(json.dumps(self.content, indent=1) + "\n")
        os.replace(draft, self.path)


def run_step(step, machine, left_s, known):
    """The entry of results.json for one step; `known`: its facts from an earlier start."""
    began = time.time()
    entry = {"stage": step.stage, "what": step.what, "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))}
    machine.log(f"\n######## {step.name}: {step.what}\n")
    try:
        machine.deadline = time.monotonic() + min(step.limit_s, left_s)
        machine.cut_by_stage = left_s < step.limit_s
        machine.known = known
        if step.needs_device:
            machine.need_device()
        entry.update(state="passed", facts=step.run(machine))
    except runs.Skipped as why:
        entry.update(state="skipped", why=str(why))
    except runs.Unfinished as why:
        entry.update(state="unfinished", why=str(why), facts=why.facts)
    except runs.Failed as why:
        entry.update(state="failed", why=str(why), facts=why.facts)
    except Exception as error:  # a fault of these scripts must not cost the other steps
        machine.log(traceback.format_exc())
        entry.update(state="failed", why=f"{type(error).__name__}: {error}")
    entry["seconds"] = round(time.time() - began, 1)
    return entry


def run_stage(stage, args, machine, results):
    """The states of the stage's steps; None: not begun."""
    ends = time.monotonic() + args.stage_s
    states = []
    chosen = [step for step in steps.STEPS if step.stage == stage and (not args.only or step.name in args.only)]
    # First what was never tried: a step that fails again and again must not keep the others from their turn.
    for step in sorted(chosen, key=lambda step: results.of(step).get("state") in ("failed", "unfinished")):
        before = results.of(step)
        if before.get("state") == "passed" and step.name != "facts" and not args.again:
            print(f"{stage} {step.name:<22} passed before")
            continue
        left = ends - time.monotonic()
        if left < step.least_s:
            print(f"{stage} {step.name:<22} not begun: {left:.0f} s are left of this stage; start it again")
            states.append(None)
            continue
        entry = run_step(step, machine, left, {} if args.again else before.get("facts") or {})
        results.note(step, entry)
        states.append(entry["state"])
        print(f"{stage} {step.name:<22} {entry['state']:<10} {entry['seconds']:6.1f} s  {entry.get('why', '')}", flush=True)
    return states


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="+", type=int, choices=(1, 2, 3), metavar="STAGE")
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--results", type=pathlib.Path, default=here / "results")
    parser.add_argument("--bundle", type=pathlib.Path, default=here, help="folder with bin/ and lib/")
    parser.add_argument("--only", nargs="+", metavar="STEP", choices=[step.name for step in steps.STEPS])
    parser.add_argument("--again", action="store_true", help="also what passed before")
    parser.add_argument("--stage-s", type=float, default=STAGE_S, help=f"seconds of a stage (default {STAGE_S})")
    parser.add_argument("--trial", action="store_true", help="on the CPU, with tiny models")
    args = parser.parse_args()
    args.results = args.results.resolve()
    args.results.mkdir(parents=True, exist_ok=True)
    bundle = args.bundle / "bundle.json"
    with runs.Machine(args.bundle.resolve(), args.results, args.trial) as machine:
        results = Results(args.results, {"bundle": json.loads(bundle.read_text()) if bundle.exists() else {},
                                         "gpu": machine.gpu, "trial": args.trial})
        states = [state for stage in args.stages for state in run_stage(stage, args, machine, results)]
        print(f"results: {results.path}")
        if "failed" in states:
            sys.exit(1)
        if machine.no_device and not args.trial:
            print(f"no device: {machine.no_device}")
            sys.exit(3)
        if None in states or "unfinished" in states:
            sys.exit(4)


if __name__ == "__main__":
    main()
