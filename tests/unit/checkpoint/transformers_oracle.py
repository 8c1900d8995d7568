"""Opens a consolidated checkpoint with transformers: no missing or unexpected weight, right values, a finite loss.
usage: transformers_oracle.py MAKE_TEST_CHECKPOINT ECHELON_CKPT"""
import pathlib
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM


def expected(name, shape):
    """What make_checkpoint.cpp put there."""
    x = torch.arange(shape.numel()) + len("model/" + name)
    return (((x * 7 % 127) - 63).double() / 4 / 3).float().reshape(shape)


def check_folder(folder, dtype):
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, dtype="auto")
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if info[kind]:
            sys.exit(f"transformers_oracle.py: {folder}: {kind}: {info[kind]}")
    for name, tensor in model.state_dict().items():
        if tensor.dtype != dtype or not torch.equal(tensor, expected(name, tensor.shape).to(dtype)):
            sys.exit(f"transformers_oracle.py: {folder}: {name} differs or has type {tensor.dtype}")
    ids = torch.tensor([[1, 5, 7, 2]])
    if not torch.isfinite(model(ids, labels=ids).loss):
        sys.exit(f"transformers_oracle.py: {folder}: loss is not finite")


def main():
    make, tool = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        subprocess.run([make, root], check=True)
        for dtype, options in ((torch.float32, []), (torch.bfloat16, ["--dtype", "bf16"])):
            output = root / str(dtype)
            subprocess.run([tool, "consolidate", root, "--to", "safetensors", "--output", output, *options], check=True,
                           stdout=subprocess.DEVNULL)
            check_folder(output, dtype)


if __name__ == "__main__":
    main()
