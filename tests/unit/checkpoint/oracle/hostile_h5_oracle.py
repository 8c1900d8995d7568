"""HDF5 files that h5py made to deceive: verify --hdf5 names what is wrong with each and follows none of them.
usage: hostile_h5_oracle.py H5_VERIFY_PROBE"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import h5py
import numpy

PROBE = sys.argv[1]
INDEX = 4096
SHAPE = [3, 4]


def fail(text):
    sys.exit(f"hostile_h5_oracle.py: {text}")


def contiguous(group, name, data, **attributes):
    """As our own writer lays it out, when `data` is one row."""
    data_set = group.create_dataset(name, data=data)
    for key, value in {"global_shape": SHAPE, "flat_begin": 2, "flat_end": 9, **attributes}.items():
        data_set.attrs[key] = numpy.asarray(value, numpy.int64)
    return data_set


def good_root(file):
    file.attrs["rank"] = numpy.int64(1)
    file.attrs["ranks"] = numpy.int64(2)
    file.create_group("model")


def row(n=7):
    return numpy.arange(n, dtype=numpy.float32)


def make(path, build, userblock=INDEX):
    with h5py.File(path, "w", libver=("v110", "v110"), userblock_size=userblock, track_order=False) as file:
        good_root(file)
        build(file)


def offset_of(path, name="model/w"):
    with h5py.File(path, "r") as file:
        data_set = file.get(name, getlink=False) if name in file else None
        return data_set.id.get_offset() if isinstance(data_set, h5py.Dataset) else None


def problems(path, offset=None, **changes):
    entry = {"name": "model/w", "dtype": "fp32", "shape": SHAPE, "begin": 2, "end": 9, "offset": offset or 8192, **changes}
    index = {"index_bytes": INDEX, "rank": 1, "ranks": 2, "entries": [entry]}
    result = subprocess.run([PROBE, path, json.dumps(index)], capture_output=True, text=True)
    if result.returncode != 0:
        fail(f"{path.name}: exit code {result.returncode}: {result.stderr}")
    return result.stdout


def external_storage(file):
    space = h5py.h5s.create_simple((7,))
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_external(b"/etc/passwd", 0, 28)
    h5py.h5d.create(file["model"].id, b"w", h5py.h5t.IEEE_F32LE, space, creation)


def virtual(file):
    layout = h5py.VirtualLayout(shape=(7,), dtype="<f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "w", shape=(7,))
    file["model"].create_virtual_dataset("w", layout)


def cycle(file):
    contiguous(file["model"], "w", row())
    file["model"]["model"] = file["/"]


HOSTILE = {
    "an external link": (lambda f: f["model"].__setitem__("w", h5py.ExternalLink("/etc/passwd", "/w")), "external or user-defined link"),
    "a soft link": (lambda f: (contiguous(f, "v", row()), f["model"].__setitem__("w", h5py.SoftLink("/v"))), "soft link"),
    "a group as external link": (lambda f: (f.__delitem__("model"), f.__setitem__("model", h5py.ExternalLink("x.h5", "/"))), "external or user-defined link"),
    "external storage": (external_storage, "its storage is external"),
    "a virtual data set": (virtual, "its storage is virtual"),
    "gzip": (lambda f: f["model"].create_dataset("w", data=row(), compression="gzip"), "its storage is not contiguous"),
    "a checksum filter": (lambda f: f["model"].create_dataset("w", data=row(), fletcher32=True), "its storage is not contiguous"),
    "a compact data set": (lambda f: h5py.h5d.create(f["model"].id, b"w", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((7,)), compact()), "its storage is not contiguous"),
    "a compound type": (lambda f: contiguous(f["model"], "w", numpy.zeros(7, [("a", "<f4"), ("b", "<f4")])), "its type is not fp32"),
    "text of any length": (lambda f: f["model"].create_dataset("w", data=["x"] * 7, dtype=h5py.string_dtype()), "its type is not fp32"),
    "references": (lambda f: f["model"].create_dataset("w", data=[f.ref] * 7, dtype=h5py.ref_dtype), "its type is not fp32"),
    "big-endian numbers": (lambda f: contiguous(f["model"], "w", row().astype(">f4")), "its type is not fp32"),
    "integers": (lambda f: contiguous(f["model"], "w", row().astype("<i4")), "its type is not fp32"),
    "another size": (lambda f: contiguous(f["model"], "w", row(6)), "it is not one row of 7 elements"),
    "another shape": (lambda f: contiguous(f["model"], "w", row().reshape(7, 1)), "it is not one row of 7 elements"),
    "one that can grow": (lambda f: f["model"].create_dataset("w", data=row(), maxshape=(None,)), "its storage is not contiguous"),
    "another begin": (lambda f: contiguous(f["model"], "w", row(), flat_begin=3), "'flat_begin' differs from the index"),
    "another whole shape": (lambda f: contiguous(f["model"], "w", row(), global_shape=[4, 3]), "'global_shape' differs from the index"),
    "a huge attribute": (lambda f: contiguous(f["model"], "w", row(), global_shape=list(range(100000))), "'global_shape' differs from the index"),
    "another rank": (lambda f: (contiguous(f["model"], "w", row()), f.attrs.__setitem__("rank", numpy.int64(0))), "'rank' differs from the index"),
    "an attribute that is text": (lambda f: (contiguous(f["model"], "w", row()), f.attrs.__setitem__("rank", "1")), "'rank' differs from the index"),
    "one more data set": (lambda f: (contiguous(f["model"], "w", row()), f["model"].create_dataset("more\n", data=row())), "'model/more\\x0a' is not in the index"),
    "one more group": (lambda f: (contiguous(f["model"], "w", row()), f.create_group("more")), "'more' is not in the index"),
    "a named type": (lambda f: f["model"].__setitem__("w", numpy.dtype("<f4")), "is not a data set"),
    "a data set for a group": (lambda f: (f.__delitem__("model"), f.create_dataset("model", data=row())), "is not a group"),
    "a cycle of groups": (cycle, "'model/model' is not in the index"),
    "nothing": (lambda f: None, "there is no such data set"),
}


def compact():
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_layout(h5py.h5d.COMPACT)
    return creation


def check_hostile(root):
    for number, (what, (build, part)) in enumerate(HOSTILE.items()):
        path = root / f"{number}.h5"
        make(path, build)
        said = problems(path, offset_of(path))
        if part not in said:
            fail(f"{what}: expected '{part}', got {said!r}")


def check_good_and_broken(root):
    path = root / "good.h5"
    make(path, lambda file: contiguous(file["model"], "w", row()))
    offset = offset_of(path)
    if problems(path, offset) != "":
        fail(f"a good file: {problems(path, offset)!r}")
    if "HDF5 has it at byte" not in problems(path, offset + 4096):
        fail("another offset is not noticed")
    if "its type is not int32" not in problems(path, offset, dtype="int32"):
        fail("another type is not noticed")
    moved = root / "moved.h5"
    make(moved, lambda file: contiguous(file["model"], "w", row()), userblock=8192)
    if "HDF5 begins at byte 8192" not in problems(moved, offset_of(moved)):
        fail("another user block is not noticed")
    bytes_ = path.read_bytes()
    broken = root / "broken.h5"
    for size in [0, 1, INDEX, INDEX + 7, INDEX + 48, len(bytes_) // 2 + INDEX // 2, len(bytes_) - 1]:
        broken.write_bytes(bytes_[:size])
        if problems(broken, offset) == "":
            fail(f"cut to {size} of {len(bytes_)} bytes: nothing was noticed")
    return bytes_, offset


def check_mutated(root, bytes_, offset):
    """Whatever libhdf5 makes of damaged metadata, crashes included, the probe itself ends well."""
    random_ = random.Random(5)
    noticed = 0
    path = root / "mutated.h5"
    for _ in range(300):
        changed = bytearray(bytes_)
        for _ in range(random_.choice([1, 1, 2, 8])):
            at = random_.randrange(INDEX, len(changed))
            changed[at] = random_.choice([0, 0xFF, random_.randrange(256), changed[at] ^ (1 << random_.randrange(8))])
        path.write_bytes(changed)
        noticed += problems(path, offset) != ""
    if noticed < 50:
        fail(f"only {noticed} of 300 damaged files were noticed")
    print(f"{len(HOSTILE)} hostile files refused, {noticed} of 300 damaged ones noticed")


def main():
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        check_hostile(root)
        check_mutated(root, *check_good_and_broken(root))


if __name__ == "__main__":
    main()
