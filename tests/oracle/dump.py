"""Runs oracle_dump and reads what it wrote."""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch

torch.set_num_threads(1)  # of small tensors several threads wait for each other more than they compute
RECIPE = pathlib.Path(__file__).parent / "tiny.yaml"
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("dump", "mpirun", "echelon", "ckpt", "transformers5", "resave"):
        parser.add_argument("--" + name)
    return parser.parse_args()


class Folder:
    """A temporary folder, kept for a look when the test fails."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="echelon-oracle-"))
        return self.path

    def __exit__(self, kind, value, trace):
        if kind is None:
            shutil.rmtree(self.path)
        else:
            print(f"files kept in {self.path}")


def ranks_command(mpirun, ranks):
    if ranks == 1:
        return []
    return [mpirun, "-n", str(ranks), "--oversubscribe", "--allow-run-as-root", "--bind-to", "none",
            "--mca", "pml", "ob1", "--mca", "btl", "self,vader"]


def dump(args, folder, ranks, cases):
    """Runs `cases` (dicts without recipe and output) as one step of `ranks` ranks. {name: output folder}."""
    outputs = {case["name"]: folder / f"{case['name']}-{ranks}" for case in cases}
    requests = folder / f"requests-{ranks}.json"
    requests.write_text(json.dumps({"cases": [
        {"recipe": str(RECIPE), "output": str(outputs[case["name"]]), **case} for case in cases]}))
    subprocess.run(ranks_command(args.mpirun, ranks) + [args.dump, str(requests)], check=True, timeout=240)
    return outputs


def read_i64(output, name):
    """ids, lengths, targets or target_lengths of the samples of a case."""
    return torch.from_numpy(numpy.fromfile(output / f"{name}.i64", dtype=numpy.int64))


def read_f32(output, name):
    """images of the samples of a case, or what it computed: loss or logits."""
    return torch.from_numpy(numpy.fromfile(output / f"{name}.f32", dtype=numpy.float32))


def read_ids(output, columns):
    """Windows of `columns` ids, all but the last of which go in and all but the first of which are targets."""
    inputs = read_i64(output, "ids").view(-1, columns - 1)
    return torch.cat([inputs, read_i64(output, "targets").view(-1, columns - 1)[:, -1:]], dim=1)


class Dump:
    """The whole tensors of one case, put together from the slices of all ranks."""

    def __init__(self, output, ranks, kinds):
        indices = [json.loads((output / f"rank-{rank}.json").read_text()) for rank in range(ranks)]
        assert all(index["ranks"] == ranks for index in indices)
        self.loss = indices[0]["loss"]
        self.scale = indices[0]["scale"]
        self.config = indices[0]["config"]
        self.tensors = {kind: self._assemble(output, indices, kind) for kind in kinds}

    @staticmethod
    def _assemble(output, indices, kind):
        whole, seen = {}, {}
        for rank, index in enumerate(indices):
            values = numpy.fromfile(output / f"rank-{rank}.{kind}.f32", dtype=numpy.float32)
            for piece in index["pieces"]:
                name, begin, end, at = (piece[key] for key in ("name", "begin", "end", "at"))
                size = int(numpy.prod(piece["shape"]))
                flat = whole.setdefault(name, (numpy.zeros(size, numpy.float32), piece["shape"]))[0]
                count = seen.setdefault(name, numpy.zeros(size, numpy.int8))
                mine = values[at:at + end - begin]
                again = count[begin:end] > 0  # copies of a slice are the same bits
                assert (flat[begin:end].view(numpy.int32) == mine.view(numpy.int32))[again].all(), (name, kind)
                flat[begin:end] = mine
                count[begin:end] += 1
        for name, count in seen.items():
            assert (count == indices[0]["replicas"]).all(), f"{name}: held by {set(count.tolist())} ranks"
        return {name: torch.from_numpy(flat).view(shape) for name, (flat, shape) in whole.items()}


class Once:
    """Results of a reference: one of the same case and tensors, as on another number of ranks, is not computed again."""

    def __init__(self):
        self.known = {}

    def of(self, case, tensors, compute):
        """compute(); `tensors`: {name: tensor} that it depends on."""
        before, found = self.known.get(case, ({}, None))
        if before.keys() != tensors.keys() or not all(torch.equal(before[name], tensor) for name, tensor in tensors.items()):
            before, found = dict(tensors), compute()
            self.known[case] = before, found
        return found


def covering(candidates, missing):
    """Of candidates [(candidate, what it covers)], always the next that covers most of what is missing, until none covers any."""
    chosen = []
    while missing:
        best, covered = max(candidates, key=lambda candidate: len(candidate[1] & missing))
        if not covered & missing:
            break
        chosen.append(best)
        missing = missing - covered
    return chosen


def compare_gradients(args, folder, cases, compare, more=(), worlds=(1, 2, 3), **common):
    """Of cases {name: (overrides, numbers of ranks, ...)}, with noise on the weights: compare(name, ranks, output) must always
    be true. All have what is `common`, and so have the cases `more`, dumped for each number of ranks.
    {(name, ranks): output folder} of all of them."""
    common = {"mode": "gradients", "perturb": 0.05, **common}
    good, outputs = [], {}
    for ranks in worlds:
        names = [name for name, case in cases.items() if ranks in case[1]]
        own = [{"name": name, "overrides": cases[name][0]} for name in names]
        found = dump(args, folder, ranks, [{**common, **case} for case in (*own, *more)])
        good += [compare(name, ranks, found[name]) for name in names]
        outputs.update({(name, ranks): output for name, output in found.items()})
    if not all(good):
        raise SystemExit("the engine and the other implementation disagree")
    return outputs


def worst_of(errors):
    """The name of the largest error, or of one that is NaN."""
    return max(errors, key=lambda name: (errors[name] != errors[name], errors[name]))


def verdict(name, ranks, errors, limit, about=""):
    """Tells the largest of the errors; is it within the limit?"""
    worst = worst_of(errors)
    ok = errors[worst] <= limit  # false for NaN too
    print(f"{'ok  ' if ok else 'FAIL'} {name} on {ranks}: {about}largest relative error {errors[worst]:.1e} ({worst}) of "
          f"{len(errors)}, allowed {limit:.0e}", flush=True)
    return ok


def distance(some, exact):
    """Relative, over all tensors together."""
    squares = sum(float((some[n].double() - exact[n].double()).square().sum()) for n in exact)
    return (squares / sum(float(g.double().square().sum()) for g in exact.values())) ** 0.5


def relative_error(actual, expected):
    """Norm of the difference over the norm of what is right."""
    actual, expected = actual.double(), expected.double()
    return float((actual - expected).norm() / expected.norm())
