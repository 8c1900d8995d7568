"""Opens what Echelon wrote with h5py and the reference safetensors library and compares every element.
usage: h5py_oracle.py MAKE_TEST_CHECKPOINT ECHELON_CKPT"""
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import huggingface_hub
import numpy as np
import safetensors
import safetensors.torch
import torch

FLOATS = {"fp32", "bf16", "fp16", "fp64"}
# What h5py sees: it has no 16-bit float with eight exponent bits, libhdf5 converts it to single precision.
H5_TYPES = {"fp32": "<f4", "bf16": "<f4", "fp16": "<f2", "fp64": "<f8", "int32": "<i4", "int64": "<i8", "uint8": "|u1"}
TORCH_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64,
               "int32": torch.int32, "int64": torch.int64, "uint8": torch.uint8}


def expected(tensor):
    """The flattened content that make_checkpoint.cpp gave a tensor of the manifest."""
    x = np.arange(math.prod(tensor["shape"]), dtype=np.int64) + len(tensor["name"])
    if tensor["dtype"] == "fp32":
        return (((x * 7 % 127) - 63) / 4 / 3).astype(np.float32)
    if tensor["dtype"] in FLOATS:
        return ((x * 7 % 127) - 63) / 4
    return (x * 3).astype(np.uint8 if tensor["dtype"] == "uint8" else np.int64)


def converted(tensor, dtype):
    """The same after a conversion by torch, the yardstick for rounding."""
    return torch.from_numpy(expected(tensor)).to(TORCH_TYPES[dtype]).to(torch.float64).numpy()


def check(condition, text):
    if not condition:
        sys.exit(f"h5py_oracle.py: {text}")


def check_shards(folder, manifest):
    tensors = {tensor["name"]: tensor for tensor in manifest["tensors"]}
    seen = {name: np.zeros(math.prod(t["shape"]), dtype=int) for name, t in tensors.items()}

    def check_piece(name, data):
        if not isinstance(data, h5py.Dataset):
            return
        tensor, begin, end = tensors[name], int(data.attrs["flat_begin"]), int(data.attrs["flat_end"])
        check(list(data.attrs["global_shape"]) == tensor["shape"], f"{name}: global_shape {data.attrs['global_shape']}")
        check(data.shape == (end - begin,), f"{name}: shape {data.shape} for {begin} to {end}")
        check(data.dtype.str == H5_TYPES[tensor["dtype"]], f"{name}: type {data.dtype.str}")
        check(data.chunks is None and data.id.get_offset() % 4096 == 0, f"{name}: not contiguous on a 4 KiB border")
        check(np.array_equal(data[...], expected(tensor)[begin:end]), f"{name}: other content in {begin} to {end}")
        seen[name][begin:end] += 1

    for rank, shard in enumerate(manifest["shards"]):
        path = folder / shard["file"]
        check(path.stat().st_size == shard["bytes"], f"{path}: size")
        with h5py.File(path, "r") as file:
            check(file.attrs["rank"] == rank and file.attrs["ranks"] == 3, f"{path}: rank {dict(file.attrs)}")
            file.visititems(check_piece)
    for name, times in seen.items():
        check((times == 1).all(), f"{name}: not every element is there once")


def check_hdf5(path, tensors, types):
    with h5py.File(path, "r") as file:
        check(file.attrs["step"] == 42, "step")
        found = []
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        check(sorted(found) == sorted(t["name"] for t in tensors), f"{path}: holds {found}")
        for tensor in tensors:
            data = file[tensor["name"]]
            check(list(data.shape) == tensor["shape"], f"{tensor['name']}: shape {data.shape}")
            check(data.dtype.str == H5_TYPES[types(tensor)], f"{tensor['name']}: type {data.dtype.str}")
            check(np.array_equal(data[...].reshape(-1), converted(tensor, types(tensor))), f"{tensor['name']}: other content")


def check_safetensors(path, tensors, types, strip):
    with safetensors.safe_open(path, "pt") as file:
        check(file.metadata() == {"format": "pt"}, f"{path}: metadata {file.metadata()}")
        check(sorted(file.keys()) == sorted(t["name"].removeprefix(strip) for t in tensors), f"{path}: names {file.keys()}")
        for tensor in tensors:
            data = file.get_tensor(tensor["name"].removeprefix(strip))
            check(list(data.shape) == tensor["shape"], f"{tensor['name']}: shape {data.shape}")
            check(data.dtype == TORCH_TYPES[types(tensor)], f"{tensor['name']}: type {data.dtype}")
            check(np.array_equal(data.to(torch.float64).numpy().reshape(-1), converted(tensor, types(tensor))),
                  f"{tensor['name']}: other content")


def check_split(folder, tensors, limit):
    """Files and index are those that huggingface_hub makes of the same tensors in the same order."""
    values = {t["name"].removeprefix("model/"): torch.empty(t["shape"], dtype=TORCH_TYPES[t["dtype"]]) for t in tensors}
    split = huggingface_hub.split_torch_state_dict_into_shards(values, max_shard_size=limit)
    check(split.is_sharded, "nothing was split")
    index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
    check((folder / "model.safetensors.index.json").read_text() == json.dumps(index, indent=2), "another index")
    by_name = {t["name"].removeprefix("model/"): t for t in tensors}
    for file, names in split.filename_to_tensors.items():
        check_safetensors(folder / file, [by_name[name] for name in names], lambda t: t["dtype"], "model/")


def advice():
    """The function missing_sources as docs/echelon_ckpt.md prints it."""
    text = (pathlib.Path(__file__).parents[4] / "docs/echelon_ckpt.md").read_text()
    block = next(part for part in text.split("```python\n")[1:] if "missing_sources" in part).split("```")[0]
    names = {}
    exec(block, names)
    return names["missing_sources"]


def check_view(tool, root, tensors):
    """Every tensor whole, also after a move; with a shard gone NaN and no zeros, and the documented check tells."""
    home = root / "100%b view"
    home.mkdir()
    shutil.copytree(root / "checkpoints", home / "run/checkpoints")
    (home / "views").mkdir()
    subprocess.run([tool, "view", home / "run", "--output", home / "views/view.h5"], check=True, stdout=subprocess.DEVNULL)
    missing_sources = advice()
    home = home.rename(root / "moved %25")
    view = home / "views/view.h5"
    check(missing_sources(view) == set(), "the advice finds shards missing that are there")
    check_hdf5(view, tensors, lambda t: t["dtype"])
    shard = next(home.glob("run/checkpoints/*/shard-00001*"))
    with h5py.File(shard) as file:
        ranges = {name: (int(file[name].attrs["flat_begin"]), int(file[name].attrs["flat_end"]))
                  for name in (t["name"] for t in tensors) if name in file}
    shard.unlink()
    check({pathlib.Path(name).name for name in missing_sources(view)} == {shard.name}, "the advice misses a shard")
    with h5py.File(view) as file:
        for tensor in (t for t in tensors if t["dtype"] in FLOATS and t["name"] in ranges):
            begin, end = ranges[tensor["name"]]
            data = file[tensor["name"]][...].reshape(-1)
            check(np.isnan(data[begin:end]).all(), f"{tensor['name']}: not NaN where a shard is missing")
            rest = np.delete(data, np.s_[begin:end])
            check(np.array_equal(rest, np.delete(expected(tensor), np.s_[begin:end])), f"{tensor['name']}: other content")


def check_tools(path):
    """The command-line tools of HDF5 read the whole file without a complaint."""
    for tool in (["h5ls", "-r"], ["h5dump"]):
        done = subprocess.run([*tool, path], capture_output=True, text=True, check=False)
        check(done.returncode == 0 and not done.stderr, f"{tool[0]} {path}: {done.stderr}")


def main():
    make, tool = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        subprocess.run([make, root], check=True)
        folder = next((root / "checkpoints").iterdir())
        manifest = json.loads((folder / "MANIFEST.json").read_text())
        tensors = manifest["tensors"]
        model = [t for t in tensors if t["name"].startswith("model/")]
        rest = [t for t in tensors if t not in model]
        check_shards(folder, manifest)
        check_tools(folder / manifest["shards"][1]["file"])

        def consolidate(*options):
            subprocess.run([tool, "consolidate", root, *options], check=True, stdout=subprocess.DEVNULL)

        same, bf16 = (lambda t: t["dtype"]), (lambda t: "bf16")
        consolidate("--to", "hdf5", "--output", root / "model.h5")
        check_hdf5(root / "model.h5", model, same)
        consolidate("--to", "hdf5", "--output", root / "all.h5", "--optimizer")
        check_hdf5(root / "all.h5", tensors, same)
        check_tools(root / "all.h5")
        consolidate("--to", "hdf5", "--output", root / "bf16.h5", "--dtype", "bf16")
        check_hdf5(root / "bf16.h5", model, bf16)
        consolidate("--to", "safetensors", "--output", root / "hf", "--optimizer")
        check_safetensors(root / "hf/model.safetensors", model, same, "model/")
        check_safetensors(root / "hf/optimizer.safetensors", rest, same, "")
        check((root / "hf/tokenizer.model").read_bytes() == b"not\0text", "tokenizer.model")
        check((root / "hf/config.json").read_bytes() == (folder / "config.json").read_bytes(), "config.json")
        consolidate("--to", "safetensors", "--output", root / "hf16", "--dtype", "bf16")
        check_safetensors(root / "hf16/model.safetensors", model, bf16, "model/")
        check_view(tool, root, tensors)
        for limit in ("2KB", "3KB"):  # with and without a tensor above the limit
            consolidate("--to", "safetensors", "--output", root / limit, "--max-shard-size", limit)
            check_split(root / limit, model, limit)
        check(json.loads((root / "hf16/config.json").read_text())["torch_dtype"] == "bfloat16", "config.json's type")
    print(f"{len(tensors)} tensors equal in shards, HDF5 and safetensors")


if __name__ == "__main__":
    main()
