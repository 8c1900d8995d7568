"""Opens exports with transformers: no missing or unexpected weight, and bit for bit the logits of a model that was given
the checkpoint's weights directly. Runs under transformers 4 and 5 (PYTHONPATH decides).
usage: transformers_oracle.py MAKE_TEST_CHECKPOINT ECHELON_CKPT MAJOR_VERSION"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM


def check(condition, text):
    if not condition:
        sys.exit(f"transformers_oracle.py: {text}")


def expected(name, shape, prefix):
    """What make_checkpoint.cpp put there."""
    x = torch.arange(shape.numel()) + len(prefix + name)
    return (((x * 7 % 127) - 63).double() / 4 / 3).float().reshape(shape)


def logits_of(model):
    with torch.no_grad():
        return model.eval()(torch.tensor([[1, 5, 7, 2, 39, 0]])).logits


def expected_logits(folder, dtype, prefix):
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).to(dtype)
    weights = {name: expected(name, tensor.shape, prefix).to(dtype) for name, tensor in model.state_dict().items()}
    model.load_state_dict(weights)
    return logits_of(model)


def check_folder(folder, dtype, prefix):
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, dtype="auto")
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        check(not info.get(kind), f"{folder}: {kind}: {info.get(kind)}")
    for name, tensor in model.state_dict().items():
        check(tensor.dtype == dtype and torch.equal(tensor, expected(name, tensor.shape, prefix).to(dtype)),
              f"{folder}: {name} differs or has type {tensor.dtype}")
    logits = logits_of(model)
    check(torch.isfinite(logits).all() and logits.std() > 0, f"{folder}: the logits say nothing")
    check(torch.equal(logits, expected_logits(folder, dtype, prefix)), f"{folder}: other logits")


def main():
    make, tool, major = sys.argv[1:]
    check(transformers.__version__.split(".")[0] == major, f"this is transformers {transformers.__version__}, not {major}")
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        subprocess.run([make, root], check=True)
        cases = {"consolidated": (torch.float32, "model/", ["consolidate", "--to", "safetensors"]),
                 "single": (torch.float32, "model/", ["export"]),
                 "sharded": (torch.float32, "model/", ["export", "--max-shard-size", "3KB"]),
                 "bf16": (torch.bfloat16, "model/", ["export", "--dtype", "bf16", "--max-shard-size", "2KB"]),
                 "averaged": (torch.float32, "ema/", ["export", "--ema"])}
        for name, (dtype, prefix, (command, *options)) in cases.items():
            subprocess.run([tool, command, root, "--output", root / name, *options], check=True, stdout=subprocess.DEVNULL)
            check_folder(root / name, dtype, prefix)
        files = set(json.loads((root / "sharded/model.safetensors.index.json").read_text())["weight_map"].values())
        check(len(files) > 3 and files == {path.name for path in (root / "sharded").glob("*.safetensors")}, f"shards {files}")
    print(f"{len(cases)} exports equal under transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
