"""One long job, and something random happens to it every few seconds until it is done.

usage: random_kills.py [--kills N] [--seed S] [--work FOLDER]     on a cluster that is up; ./make.sh drills random_kills

Each life lasts until a checkpoint more is committed; the guard against loops would hold the job otherwise. Ends with an
error unless the job reaches its last step with the weights of the undisturbed run and nothing committed was ever lost.
"""
import argparse
import json
import pathlib
import random
import signal
import statistics
import time

import slurm
from slurm import call
from trial import OVER, Trial, train_undisturbed

SPARE = 2  # of the cluster's four nodes
RANKS = 4
STEPS_A_LIFE = 45  # a save each ten, and some to be killed in; a quiet machine trains some forty between faults


def kill_rank(trial, chance):
    rank = chance.randrange(RANKS)
    return f"kill -9 of rank {rank} on {slurm.signal_rank(trial.job, rank, signal.SIGKILL)}"


def kill_node(trial, chance):
    """Not that of the batch script, which only Slurm can bring back, minutes later."""
    nodes = {where for _, where in slurm.rank_processes(trial.job).values()} - {slurm.field(trial.job, "BatchHost")}
    if not nodes:
        return kill_rank(trial, chance)
    trial.broken = chance.choice(sorted(nodes))
    slurm.node("kill", trial.broken)
    return f"power off of {trial.broken}"


def repair(trial):
    if trial.broken:
        slurm.node("restore", trial.broken)
    trial.broken = None


def terminate_rank(trial, chance):
    rank = chance.randrange(RANKS)
    return f"SIGTERM to rank {rank} on {slurm.signal_rank(trial.job, rank, signal.SIGTERM)}"


def requeue(trial, _):
    call("scontrol", "requeue", trial.job)
    return "scontrol requeue"


def cancel_step(trial, chance):
    name = chance.choice(["TERM", "USR2", "INT"])
    call("scancel", f"--signal={name}", trial.job)  # its steps; which one runs depends on the restarts so far
    return f"scancel --signal={name}"


def one(trial, chance):
    """One fault at a random moment after the next commit; the job goes on with at least what was committed."""
    trial.wait_committed(trial.committed() + 1)
    time.sleep(chance.uniform(0, 1.5))
    if trial.state() in OVER:
        return None
    inject = chance.choice([kill_rank, kill_rank, kill_rank, kill_node, kill_node, terminate_rank, requeue, cancel_step])
    said = trial.fault(lambda: inject(trial, chance))
    trial.bring_back(lambda: repair(trial))
    return said


def by_phase(restarts):
    """Median and worst seconds of each phase of restarts in place, on the same nodes and with another node."""
    for what, chosen in (("same nodes", [r for r in restarts if not r["left_out"]]),
                         ("another node", [r for r in restarts if r["left_out"]])):
        seconds = [{**r["seconds"], "all": sum(r["seconds"].values())} for r in chosen]
        if seconds:
            columns = {name: sorted(row[name] for row in seconds) for name in seconds[0]}
            yield what, len(seconds), {name: (round(statistics.median(all), 2), round(all[-1], 2)) for name, all in columns.items()}


def disturb(work, kills, seed, report=print):
    """Row of the whole."""
    chance = random.Random(seed)
    steps = STEPS_A_LIFE * (kills + 2)
    began = time.time()
    trial = Trial(work, f"random_kills_{kills}", steps, "checkpoint.max_write_mb_per_s=4", spare=SPARE)
    trial.broken = None
    done = 0
    while done < kills:
        said = one(trial, chance)
        if said is None:
            break
        done += 1
        report(json.dumps({"kill": done, "what": said, "step": trial.row["fault_at"], "restart_s": trial.row["restart_s"],
                           "back_s": trial.row.pop("back_s", None)}),
               flush=True)
    trial.finish()
    trial.check(train_undisturbed(work, steps, ranks=RANKS))
    if done < kills:
        trial.fail(f"the job was done after {done} of {kills} kills")
    return {"kills": done, "seed": seed, "steps": steps, "lost_steps": trial.row["lost_steps"],
            "took_s": round(time.time() - began, 1), "goodput": trial.row.get("goodput"),
            "by_phase": list(by_phase(trial.row.get("restarts", []))),
            "said": f"{done} kills, seed {seed}: {steps} steps, final weights as undisturbed"}


def random_kills(work):
    """50 of: kill -9 of a rank, loss of a node, SIGTERM, scontrol requeue, scancel --signal; at random moments of one job"""
    return disturb(work, 50, 1)


DRILLS = [random_kills]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=pathlib.Path, default=slurm.ROOT / "build/release/drills")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    print(json.dumps(disturb(options.work, options.kills, options.seed)))


if __name__ == "__main__":
    main()
