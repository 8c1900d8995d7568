"""Loss and every gradient of the image models against other implementations on the same weights and images: ViT against
transformers' ViTForImageClassification, the tutorials' CNN and DeepViT against the same written here with torch.

Dropout, which no other implementation draws alike, must give the same on any number of ranks."""
import pathlib

import torch
from torch.nn import functional
from transformers import ViTConfig, ViTForImageClassification

import dump

EXACT = 1e-5
BF16 = 1e-1  # of biases, whose gradients are sums that cancel
BLOCKS = ["model.hidden_size=48", "model.intermediate_size=112", "model.layers=2", "model.heads=4", "model.patch_size=4"]
VIT = ["model.kind=vit", *BLOCKS, "model.init_std=0.15"]
DEEPVIT = ["model.kind=deepvit", *BLOCKS, "model.init_std=0.15"]
BY_SIZE = ["shard.wrap.policy=size_based", "shard.wrap.min_params=2000"]
# name: (overrides, ranks, largest relative error)
CASES = {
    "cnn": ([], (1, 2, 3), EXACT),
    "cnn_mnist": (["model.image_size=28", "model.channels=1", "model.classes=10", "data.mean=[0.1307]",
                   "data.std=[0.3081]"], (1, 2), EXACT),
    "cnn_odd_size": (["model.image_size=15", "model.classes=2"], (3,), EXACT),
    "cnn_by_size": (BY_SIZE, (2, 3), EXACT),
    "cnn_zero2": (["shard.strategy=shard_grad_op"], (2,), EXACT),
    "cnn_ddp": (["shard.strategy=no_shard"], (2,), EXACT),
    "cnn_one_unit": (["shard.wrap.policy=none"], (3,), EXACT),
    "cnn_recomputed": (["activation_checkpointing.policy=full"], (2,), EXACT),
    "cnn_bf16": (["precision.param=bf16"], (2,), BF16),
    "vit": (VIT, (1, 2, 3), EXACT),
    "vit_by_size": (VIT + BY_SIZE, (2, 3), EXACT),
    "vit_zero2": (VIT + ["shard.strategy=shard_grad_op"], (2, 3), EXACT),
    "vit_summed": (VIT + ["shard.strategy=shard_optimizer"], (3,), EXACT),
    "vit_odd_sizes": (VIT + ["model.hidden_size=42", "model.heads=3", "model.intermediate_size=77",
                             "model.layers=3", "model.patch_size=8", "model.norm_eps=0.1"], (1, 3), EXACT),
    "vit_recomputed": (VIT + ["activation_checkpointing.policy=full"], (2,), EXACT),
    "vit_selective": (VIT + ["activation_checkpointing.policy=selective"], (1, 2), EXACT),
    "vit_bf16": (VIT + ["model.init_std=0.05", "precision.param=bf16"], (2,), BF16),
    "deepvit": (DEEPVIT, (1, 2, 3), EXACT),
    "deepvit_by_size": (DEEPVIT + BY_SIZE, (2, 3), EXACT),
    "deepvit_zero2": (DEEPVIT + ["shard.strategy=shard_grad_op"], (2, 3), EXACT),
    "deepvit_odd_sizes": (DEEPVIT + ["model.hidden_size=42", "model.heads=3", "model.intermediate_size=77",
                                     "model.layers=3", "model.patch_size=8", "model.norm_eps=0.1"], (1, 3), EXACT),
    "deepvit_recomputed": (DEEPVIT + ["activation_checkpointing.policy=full"], (2,), EXACT),
    "deepvit_selective": (DEEPVIT + ["activation_checkpointing.policy=selective"], (1, 2), EXACT),
    "deepvit_bf16": (DEEPVIT + ["model.init_std=0.05", "precision.param=bf16"], (2,), BF16),
}
# Trained with dropout; compared with one rank and one unit.
DROPOUT = {
    "cnn": ["model.dropout=0.5"],
    "vit": VIT + ["model.dropout=0.3"],
    "deepvit": DEEPVIT + ["model.dropout=0.3"],
    "vit_recomputed": VIT + ["model.dropout=0.3", "activation_checkpointing.policy=full"],
    "deepvit_selective": DEEPVIT + ["model.dropout=0.3", "activation_checkpointing.policy=selective"],
}
SAME_DRAWS = {"vit_recomputed": "vit", "deepvit_selective": "deepvit"}


def cnn(w, images, _config):
    """The network of the tutorial, without its dropout."""
    x = functional.relu(functional.conv2d(images, w["conv1.weight"], w["conv1.bias"]))
    x = functional.relu(functional.conv2d(x, w["conv2.weight"], w["conv2.bias"]))
    x = torch.flatten(functional.max_pool2d(x, 2), 1)
    x = functional.relu(functional.linear(x, w["fc1.weight"], w["fc1.bias"]))
    return functional.log_softmax(functional.linear(x, w["fc2.weight"], w["fc2.bias"]), dim=1)


def norm(w, name, x, eps):
    return functional.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], eps)


def deepvit(w, images, config):
    """DeepViT as vit-pytorch lays it out; the re-attention is equation 3 of the paper."""
    patch, heads, eps = config["patch_size"], config["num_attention_heads"], config["layer_norm_eps"]
    samples, channels, height, width = images.shape
    cut = images.reshape(samples, channels, height // patch, patch, width // patch, patch)
    patches = torch.einsum("bchpwq->bhwpqc", cut).reshape(samples, -1, patch * patch * channels)
    x = functional.linear(patches, w["to_patch_embedding.1.weight"], w["to_patch_embedding.1.bias"])
    x = torch.cat([w["cls_token"].expand(samples, -1, -1), x], dim=1) + w["pos_embedding"]
    for layer in range(config["num_hidden_layers"]):
        attention, mlp = f"transformer.layers.{layer}.0.fn", f"transformer.layers.{layer}.1.fn"
        qkv = functional.linear(norm(w, attention + ".norm", x, eps), w[attention + ".fn.to_qkv.weight"])
        q, k, v = (t.unflatten(-1, (heads, -1)) for t in qkv.chunk(3, dim=-1))
        maps = (torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5).softmax(dim=-1)
        mixed = torch.einsum("bhij,hg->bijg", maps, w[attention + ".fn.reattn_weights"])
        maps = norm(w, attention + ".fn.reattn_norm.1", mixed, eps)
        out = torch.einsum("bijh,bjhd->bihd", maps, v).flatten(-2)
        x = x + functional.linear(out, w[attention + ".fn.to_out.0.weight"], w[attention + ".fn.to_out.0.bias"])
        inner = functional.linear(norm(w, mlp + ".norm", x, eps), w[mlp + ".fn.net.0.weight"], w[mlp + ".fn.net.0.bias"])
        x = x + functional.linear(functional.gelu(inner), w[mlp + ".fn.net.3.weight"], w[mlp + ".fn.net.3.bias"])
    return functional.linear(norm(w, "mlp_head.0", x[:, 0], eps), w["mlp_head.1.weight"], w["mlp_head.1.bias"])


def reference(result, output):
    """Another implementation's loss and gradients by parameter name."""
    config = result.config
    targets = dump.read_i64(output, "targets")
    images = dump.read_f32(output, "images").view(
        len(targets), config["num_channels"], config["image_size"], config["image_size"])
    if config["model_type"] == "vit":
        model = ViTForImageClassification(ViTConfig.from_dict(config)).float()
        model.load_state_dict(result.tensors["weights"], strict=True)
        parameters = dict(model.named_parameters())
        logits = model(pixel_values=images).logits
    else:
        parameters = {name: value.clone().requires_grad_() for name, value in result.tensors["weights"].items()}
        logits = {"cnn": cnn, "deepvit": deepvit}[config["model_type"]](parameters, images, config)
    loss = functional.cross_entropy(logits, targets)
    loss.backward()
    return loss.item(), {name: parameter.grad for name, parameter in parameters.items()}


def error_of(name, actual, gradients):
    """Softmax is blind to what is added to all keys: that gradient is zero but for rounding, so it is measured by that of
    the queries."""
    if name.endswith("attention.key.bias"):
        return float((actual - gradients[name]).norm() / gradients[name.replace(".key.", ".query.")].norm())
    return dump.relative_error(actual, gradients[name])


def errors_of(result, loss, gradients):
    assert gradients.keys() == result.tensors["gradients"].keys()
    return {"loss": abs(result.loss - loss) / loss,
            **{name: error_of(name, actual, gradients) for name, actual in result.tensors["gradients"].items()}}


def compare(name, ranks, output):
    result = dump.Dump(output, ranks, ("weights", "gradients"))
    return dump.verdict(name, ranks, errors_of(result, *reference(result, output)), CASES[name][2])


def compare_dropout(name, ranks, dropped):
    """Same draws as on one rank, and as without recomputation."""
    result, first = dropped[name, ranks], dropped[SAME_DRAWS.get(name, name), 1]
    return dump.verdict(f"dropout of {name}", ranks, errors_of(result, first.loss, first.tensors["gradients"]), EXACT)


def main():
    args = dump.arguments()
    torch.manual_seed(0)
    with dump.Folder() as folder:
        more = [{"name": "dropout_" + name, "training": True, "overrides": overrides} for name, overrides in DROPOUT.items()]
        outputs = dump.compare_gradients(args, folder, CASES, compare, more,
                                         recipe=str(pathlib.Path(__file__).parent / "tiny_images.yaml"))
        dropped = {(name, ranks): dump.Dump(outputs["dropout_" + name, ranks], ranks, ("weights", "gradients"))
                   for ranks in (1, 2, 3) for name in DROPOUT}
        assert abs(dump.Dump(outputs["cnn", 1], 1, ()).loss - dropped["cnn", 1].loss) > 1e-3, "dropout changed nothing"
        if not all([compare_dropout(name, ranks, dropped) for name, ranks in dropped if ranks > 1 or name in SAME_DRAWS]):
            raise SystemExit("the draws of dropout depend on ranks or recomputation")


if __name__ == "__main__":
    main()
