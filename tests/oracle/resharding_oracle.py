"""Checkpoints of 1, 2, 3, 4 and 8 ranks under every strategy, loaded by every other number of ranks under every other
strategy: saved again they hold the same bits, tensor by tensor, and the next step has the same loss."""
import itertools
import json
import subprocess

import dump
from trained import command

WORLDS = (1, 2, 3, 4, 8)
STRATEGIES = ("full_shard", "shard_grad_op", "shard_optimizer", "no_shard", "hybrid_shard", "hybrid_grad_op")
WRAPS = {"transformer": [], "none": ["shard.wrap.policy=none"],
         "small": ["shard.wrap.policy=size_based", "shard.wrap.min_params=30"]}
STEP = 3
# Slices are uneven and cut parameters on every number of ranks; averaged weights are kept as well.
SETTINGS = ["model.vocab_size=83", "model.hidden_size=36", "model.heads=3", "model.kv_heads=1", "model.layers=2",
            "model.intermediate_size=52", "data.seq_len=12", "train.micro_batch_size=1", "train.global_batch_size=24",
            "train.clip_grad_norm=1.0", "optim.ema_decay=0.9", "checkpoint.every_steps=0"]


def places(worlds=WORLDS):
    """All (world, strategy, wrap) that can be."""
    return [(world, strategy, wrap) for world, strategy, wrap in itertools.product(worlds, STRATEGIES, WRAPS)
            if not (strategy.startswith("hybrid") and world % 2)]


def pairs_of_values(save, load):
    """What two places cover: every two values of different axes."""
    axes = [*zip(("saved on", "saved as", "saved in"), save), *zip(("loaded on", "loaded as", "loaded in"), load)]
    return set(itertools.combinations(axes, 2))


def covering(saves):
    """(save, load) so that every two values that may meet do: greedy, deterministic. Each save is loaded where it was
    made, too."""
    missing = set().union(*(pairs_of_values(*pair) for pair in itertools.product(places(), places())))
    own = [(save, save) for save in saves]
    missing -= set().union(*(pairs_of_values(*pair) for pair in own))
    chosen = own + dump.covering([(pair, pairs_of_values(*pair)) for pair in itertools.product(saves, places())], missing)
    missing -= set().union(*(pairs_of_values(*pair) for pair in chosen))
    assert not missing, f"no pair covers {missing}"
    return chosen


def some_saves():
    """Places in which every two values of the three axes meet."""
    candidates = [(place, set(itertools.combinations(enumerate(place), 2))) for place in places()]
    return dump.covering(candidates, set().union(*(covered for _, covered in candidates)))


def overrides(place):
    world, strategy, wrap = place
    mesh = [f"shard.mesh.shard={world // 2}"] if strategy.startswith("hybrid") else []
    return [*SETTINGS, *WRAPS[wrap], *mesh, f"shard.strategy={strategy}"]


def name_of(place):
    return "-".join(map(str, place))


def run(args, folder, world, cases, what):
    """Runs cases as one job of `world` ranks."""
    if not cases:
        return
    requests = folder / f"{what}-{world}.json"
    requests.write_text(json.dumps({"log": str(folder / f"{what}-{world}-log-"), "cases": cases}))
    subprocess.run(dump.ranks_command(args.mpirun, world) + [args.resave, str(requests)], check=True, timeout=280)


def inspect(args, run_folder):
    """What the newest checkpoint holds, without how it is cut."""
    shown = json.loads(command(args.ckpt, "inspect", "--json", run_folder))
    tensors = {t["name"]: {key: value for key, value in t.items() if key != "pieces"} for t in shown["tensors"]}
    state = {key: value for key, value in shown["trainer_state"].items() if key != "ranks"}
    return shown["step"], tensors, state


def last_loss(run_folder):
    """As it is spelled in metrics.jsonl."""
    return json.loads((run_folder / "metrics.jsonl").read_text().splitlines()[-1], parse_float=str)["loss"]


def check(args, folder, save, load, number):
    """What is wrong with one load, or None."""
    saved, next_saved = folder / f"saved-{name_of(save)}", folder / f"saved-next-{name_of(save)}"
    loaded, next_loaded = folder / f"loaded-{number}", folder / f"loaded-next-{number}"
    before, after = inspect(args, saved), inspect(args, loaded)
    assert before[0] == STEP and {name.split("/")[0] for name in before[1]} == {"model", "optim", "ema"}
    if before != after:
        return f"not the same state: {[name for name in before[1] if before[1][name] != after[1].get(name)]}"
    expected, actual = last_loss(next_saved), last_loss(next_loaded)
    if save == load:
        if expected != actual:
            return f"loss {actual}, expected {expected}"
        if inspect(args, next_saved) != inspect(args, next_loaded):
            return "the next step led to another state"
    elif abs(float(actual) / float(expected) - 1) > 1e-6:
        return f"loss {actual}, expected {expected}"
    return None


def main():
    args = dump.arguments()
    with dump.Folder() as folder:
        saves = some_saves()
        loads = covering(saves)
        for world in WORLDS:
            run(args, folder, world, [
                {"recipe": str(dump.RECIPE), "overrides": overrides(place), "step": STEP, "from": "",
                 "to": str(folder / f"saved-{name_of(place)}"), "next": str(folder / f"saved-next-{name_of(place)}")}
                for place in saves if place[0] == world], "save")
        for world in WORLDS:
            run(args, folder, world, [
                {"recipe": str(dump.RECIPE), "overrides": overrides(load), "from": str(folder / f"saved-{name_of(save)}"),
                 "to": str(folder / f"loaded-{number}"), "next": str(folder / f"loaded-next-{number}")}
                for number, (save, load) in enumerate(loads) if load[0] == world], "load")
        wrong = 0
        for number, (save, load) in enumerate(loads):
            fault = check(args, folder, save, load, number)
            if fault:
                wrong += 1
                print(f"saved on {name_of(save)}, loaded on {name_of(load)}: {fault}", flush=True)
        worlds = {(save[0], load[0]) for save, load in loads}
        assert worlds == set(itertools.product(WORLDS, WORLDS))
        print(f"{len(saves)} checkpoints, {len(loads)} loads, {len(worlds)} pairs of numbers of ranks: {wrong} differ")
        if wrong:
            raise SystemExit("a state did not survive its checkpoint")


if __name__ == "__main__":
    main()
