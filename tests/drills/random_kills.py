"""One long job, and something random happens to it every few seconds until it is done.

usage: random_kills.py [--losses] [--kills N] [--seed S] [--work FOLDER]
                          on a cluster that is up; ./make.sh drills random_kills, and random_losses with --losses

Ends with an error unless the job reaches its last step with the weights of the undisturbed run, and nothing committed was
ever lost. With --losses only ranks and nodes are lost, the job saves to memory, and it may be queued again only when it has
lost more nodes than it has spare ones.
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
LOSSES_STEPS_A_LIFE = 30
MEMORY_EVERY = 5


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


def life_to_a_commit(trial, chance):
    """Until a checkpoint more is committed; the guard against loops would hold the job otherwise."""
    trial.wait_committed(trial.committed() + 1)
    time.sleep(chance.uniform(0, 1.5))


def life_of_some_steps(trial, chance):
    """Some steps after the newest start. The memory has saved some of them, the disk perhaps none."""
    trial.wait_step(trial.last_step(trial.mark) + chance.randrange(2, LOSSES_STEPS_A_LIFE), trial.mark)


def one(trial, chance, live, faults):
    """One fault after another piece of the run's life; the job goes on with at least what was committed."""
    live(trial, chance)
    if trial.state() in OVER:
        return None
    inject = chance.choice(faults)
    said = trial.fault(lambda: inject(trial, chance))
    if trial.broken:
        trial.nodes_lost += 1
    trial.bring_back(lambda: repair(trial))
    if trial.row["restart_s"] is not None:
        trial.queued.append(trial.nodes_lost)
        trial.nodes_lost = 0
    return said


def by_phase(restarts):
    """Median and worst seconds of each phase of restarts in place, on the same nodes and with another node."""
    for what, chosen in (("same nodes", [r for r in restarts if not r["left_out"]]),
                         ("another node", [r for r in restarts if r["left_out"]])):
        seconds = [{**r["seconds"], "all": sum(r["seconds"].values())} for r in chosen]
        if seconds:
            columns = {name: sorted(row[name] for row in seconds) for name in seconds[0]}
            yield what, len(seconds), {name: (round(statistics.median(all), 2), round(all[-1], 2)) for name, all in columns.items()}


def summary(values):
    """(number, median, worst)."""
    return (len(values), round(statistics.median(values), 2), max(values)) if values else (0, None, None)


def disturb(work, kills, seed, losses=False, report=print):
    """Row of the whole."""
    chance = random.Random(seed)
    began = time.time()
    if losses:
        live, faults, steps = life_of_some_steps, [kill_rank, kill_rank, kill_node], LOSSES_STEPS_A_LIFE * (kills + 2)
        trial = Trial(work, f"random_losses_{kills}", steps, "checkpoint.every_steps=20", "checkpoint.max_write_mb_per_s=4",
                      f"checkpoint.memory_every_steps={MEMORY_EVERY}", spare=SPARE,
                      options=("--time", "180", "--max-restarts", "100000"))
    else:
        live, steps = life_to_a_commit, STEPS_A_LIFE * (kills + 2)
        faults = [kill_rank, kill_rank, kill_rank, kill_node, kill_node, terminate_rank, requeue, cancel_step]
        trial = Trial(work, f"random_kills_{kills}", steps, "checkpoint.max_write_mb_per_s=4", spare=SPARE)
    trial.broken, trial.nodes_lost, trial.queued = None, 0, []
    back = {"rank": [], "node": []}
    done = 0
    while done < kills:
        said = one(trial, chance, live, faults)
        if said is None:
            break
        done += 1
        in_place_s = trial.row.pop("back_s", None)
        if in_place_s is not None:
            back["rank" if "of rank" in said else "node"].append(in_place_s)
        report(json.dumps({"kill": done, "what": said, "step": trial.row["fault_at"], "restart_s": trial.row["restart_s"],
                           "back_s": in_place_s}), flush=True)
    trial.finish()
    trial.check(train_undisturbed(work, steps, ranks=RANKS))
    if done < kills:
        trial.fail(f"the job was done after {done} of {kills} kills")
    early = [lost for lost in trial.queued if lost <= SPARE]
    if losses and early:
        trial.fail(f"the job was queued again {len(trial.queued)} times, {len(early)} of them with a spare node left")
    restarts = trial.row.get("restarts", [])
    lost = [restart["from_step"] - restart["resumed_step"] for restart in restarts]
    back = {what: summary(seconds) for what, seconds in back.items()}
    said = f"{done} kills, seed {seed}: {steps} steps, final weights as undisturbed"
    if losses:
        said += f", queued again {len(trial.queued)} times; the next new step after (median, worst) " + "; ".join(
            f"the {'death' if what == 'rank' else 'loss'} of a {what} {median}, {worst} s" for what, (_, median, worst) in back.items())
    return {"kills": done, "seed": seed, "steps": steps, "lost_steps": trial.row["lost_steps"],
            "took_s": round(time.time() - began, 1), "goodput": trial.row.get("goodput"), "queued_again": len(trial.queued),
            "back": back, "lost_steps_a_restart": summary(lost), "by_phase": list(by_phase(restarts)), "said": said}


def random_kills(work):
    """50 of: kill -9 of a rank, loss of a node, SIGTERM, scontrol requeue, scancel --signal; at random moments of one job"""
    return disturb(work, 50, 1)


def random_losses(work):
    """200 of: kill -9 of a rank, loss of a node; a job that saves to memory is queued again only when no spare node is left"""
    return disturb(work, 200, 1, losses=True)


DRILLS = [random_kills, random_losses]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--losses", action="store_true")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=pathlib.Path, default=slurm.ROOT / "build/release/drills")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    print(json.dumps(disturb(options.work, options.kills, options.seed, options.losses)))


if __name__ == "__main__":
    main()
