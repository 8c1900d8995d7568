"""What `echelon train` saved opens in transformers and means there what it meant to the trainer."""
import h5py
import numpy
import safetensors.torch
import torch
from transformers import AutoModelForCausalLM

import dump
import trained

SEQ_LEN = 40
STEPS = 10
RANKS = {"untied": 2, "tied": 1}
OVERRIDES = {"untied": [], "tied": ["model.tie_embeddings=true", "model.kv_heads=1", "model.heads=3"]}


def open_in_transformers(folder, tied):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    for what, found in info.items():
        assert not found, f"{folder}: {what} {found}"
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied
    return model.eval()


def check_logits(args, folder, name, checkpoint, model):
    """The trainer's own computation on the checkpoint against transformers' on the consolidated folder."""
    case = {"name": f"logits-{name}", "mode": "logits", "overrides": OVERRIDES[name],
            "checkpoint": str(checkpoint), "first": 1000, "rows": 5}
    output = dump.dump(args, folder, 1, [case])[case["name"]]
    ids = dump.read_ids(output, SEQ_LEN + 1)[:, :-1]
    logits = dump.read_f32(output, "logits").view(len(ids), -1)
    error = dump.relative_error(logits, model(input_ids=ids).logits[:, -1])
    assert error <= 1e-5, f"{name}: logits differ by {error}"
    return error


def check_hdf5(safetensors_folder, hdf5_file):
    """Both consolidations hold the same tensors, bit for bit."""
    tensors = safetensors.torch.load_file(safetensors_folder / "model.safetensors")
    with h5py.File(hdf5_file) as file:
        stored = {}
        file["model"].visititems(lambda path, item: stored.update({path: item[()]})
                                 if isinstance(item, h5py.Dataset) else None)
    assert stored.keys() == tensors.keys(), stored.keys() ^ tensors.keys()
    for key, values in stored.items():
        assert values.dtype == numpy.float32 and values.shape == tuple(tensors[key].shape), key
        assert (values.view(numpy.int32) == tensors[key].numpy().view(numpy.int32)).all(), key
    return len(stored)


def main():
    args = dump.arguments()
    with dump.Folder() as folder:
        for name, ranks in RANKS.items():
            run = folder / f"run-{name}"
            trained.train(args, run, [*OVERRIDES[name], f"train.steps={STEPS}", "checkpoint.every_steps=0"], ranks)
            output = trained.consolidate(args, run, "safetensors", folder / f"{name}-out")
            error = check_logits(args, folder, name, run, open_in_transformers(output, name == "tied"))
            count = check_hdf5(output, trained.consolidate(args, run, "hdf5", folder / f"{name}.h5"))
            print(f"ok {name}: {count} tensors, logits within {error:.1e}", flush=True)


if __name__ == "__main__":
    with torch.no_grad():
        main()
