"""What `echelon train` saved opens in transformers and means there what it meant to the trainer."""
import subprocess

import h5py
import numpy
import safetensors.torch
import torch
from transformers import AutoModelForCausalLM

import dump
import trained

SEQ_LEN = 40
BATCH = 12
STEPS = 20
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
    logits = torch.from_numpy(numpy.fromfile(output / "logits.f32", dtype=numpy.float32)).view(ids.shape[0], -1)
    error = dump.relative_error(logits, model(input_ids=ids).logits[:, -1])
    assert error <= 1e-5, f"{name}: logits differ by {error}"
    return error


def check_next_loss(args, folder, name, metrics, model):
    """The loss of step 11 is that of the weights after step 10 on the samples of step 11."""
    case = {"name": f"ids-{name}", "mode": "ids", "overrides": OVERRIDES[name], "first": 10 * BATCH, "rows": BATCH}
    ids = dump.read_ids(dump.dump(args, folder, 1, [case])[case["name"]], SEQ_LEN + 1)
    logits = model(input_ids=ids[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).item()
    error = abs(metrics[10]["loss"] - loss) / loss
    assert error <= 1e-5, f"{name}: step 11 logged {metrics[10]['loss']}, transformers computes {loss}"
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


def check_refusal(args, run, folder):
    """A consolidation never overwrites what is there."""
    output = folder / "taken"
    output.mkdir()
    (output / "mine").write_text("mine")
    done = subprocess.run([args.ckpt, "consolidate", str(run), "--to", "safetensors", "--output", str(output)],
                          stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode != 0 and "taken" in done.stderr, done
    assert [item.name for item in output.iterdir()] == ["mine"]


def main():
    args = dump.arguments()
    with dump.Folder() as folder:
        for name, ranks in RANKS.items():
            run = folder / f"run-{name}"
            metrics = trained.train(args, run, [*OVERRIDES[name], f"train.steps={STEPS}"], ranks)
            middle = trained.consolidate(args, trained.step_folder(run, 10), "safetensors", folder / f"{name}-10")
            loss_error = check_next_loss(args, folder, name, metrics, open_in_transformers(middle, name == "tied"))
            last = trained.consolidate(args, run, "safetensors", folder / f"{name}-last")
            model = open_in_transformers(last, name == "tied")
            logits_error = check_logits(args, folder, name, run, model)
            count = check_hdf5(last, trained.consolidate(args, run, "hdf5", folder / f"{name}.h5"))
            print(f"ok {name}: {count} tensors, logits within {logits_error:.1e}, next loss within {loss_error:.1e}",
                  flush=True)
        check_refusal(args, folder / "run-tied", folder)


if __name__ == "__main__":
    with torch.no_grad():
        main()
