"""LoRA against peft: loss and gradients of every adapter at 1 to 3 ranks; what a run with adapters exports opens in peft and
gives the logits of the engine; merged weights are those of peft's merge_and_unload; an adapter that peft has saved gives
peft's logits in the engine."""
import json

import peft
import safetensors.torch
import torch
from transformers import AutoModelForCausalLM

import dump
import reference_models
import trained

EXACT = 1e-5
QWEN2 = ["model.kind=qwen2", "model.vocab_size=97", "model.hidden_size=84", "model.heads=14", "model.layers=3"]
QWEN3 = ["model.kind=qwen3", "model.head_size=20", "model.heads=6", "model.tie_embeddings=true"]
LORA = ["lora.rank=4", "lora.alpha=12"]
PART = ["lora.rank=3", "lora.use_rslora=true", "lora.modules=[v_proj, q_proj, down_proj]"]
CASES = {  # name: overrides, ranks, largest relative error
    "all": (LORA, (1, 2, 3), EXACT),
    "part_of_stacked": (PART, (2, 3), EXACT),
    "one_block": (["lora.rank=2", "lora.modules=[layers.1.mlp.up_proj]"], (2,), EXACT),
    "qwen2_also_train": (QWEN2 + LORA + ["lora.also_train=[lm_head, model.norm]"], (1, 2), EXACT),
    "qwen3_tied": (QWEN3 + PART, (1, 3), EXACT),
    "qwen3_recomputed": (QWEN3 + LORA + ["activation_checkpointing.policy=full", "shard.wrap.policy=none"], (2,), EXACT),
    "olmo2": (["model.kind=olmo2", *LORA], (2,), EXACT),
    "olmo3_selective": (["model.kind=olmo3", "model.window=17", "model.full_attention_every=2", *PART,
                         "activation_checkpointing.policy=selective"], (2,), EXACT),
    "smollm3": (["model.kind=smollm3", "model.no_rope_every=2", "model.tie_embeddings=true", *LORA], (3,), EXACT),
    "granite": (["model.kind=granite", "model.residual_multiplier=0.4", "model.embedding_multiplier=3", *LORA], (2,), EXACT),
    "phi3": (["model.kind=phi3", *LORA], (3,), EXACT),
    "phi3_part": (["model.kind=phi3", "lora.rank=3", "lora.modules=[qkv_proj, down_proj]",
                   "activation_checkpointing.policy=selective"], (2,), EXACT),
    "neox": (["model.kind=gpt_neox", "model.kv_heads=3", "model.hidden_size=64", "model.partial_rotary_factor=0.5", *LORA], (1, 2), EXACT),
    "neox_part": (["model.kind=gpt_neox", "model.kv_heads=3", "model.tie_embeddings=true", "lora.rank=3",
                   "lora.modules=[query_key_value, mlp.dense_4h_to_h]", "activation_checkpointing.policy=selective"], (3,), EXACT),
    "gemma3": (["model.kind=gemma3_text", "model.head_size=20", "model.tie_embeddings=true", *LORA], (2,), EXACT),
    "recomputed": (LORA + ["activation_checkpointing.policy=full"], (2,), EXACT),
    "selective": (PART + ["activation_checkpointing.policy=selective"], (2,), EXACT),
    "mistral_zero2": (["model.kind=mistral", "model.window=17", "shard.strategy=shard_grad_op"] + LORA, (3,), EXACT),
    "frozen_bf16": (LORA + ["precision.frozen=bf16"], (1, 3), EXACT),
    "no_shard": (LORA + ["shard.strategy=no_shard"], (2,), EXACT),
    "summed": (LORA + ["shard.strategy=shard_optimizer"], (3,), EXACT),
    "small_units": (LORA + ["shard.wrap.policy=size_based", "shard.wrap.min_params=30"], (2,), EXACT),
    "override": (LORA + ["precision.overrides={model.layers.1: bf16}"], (2,), 3e-2),
    "bf16": (LORA + ["precision.param=bf16", "precision.buffer=bf16", "model.init_std=0.05"], (1, 2), 3e-2),
    "bf16_selective": (PART + ["precision.param=bf16", "model.init_std=0.05", "activation_checkpointing.policy=selective"], (2,), 3e-2),
}
DROPPED = {"dropout": [], "dropout_selective": ["activation_checkpointing.policy=selective"],
           "dropout_recomputed": ["activation_checkpointing.policy=full", "shard.wrap.policy=none"]}


def is_adapter(name):
    return ".lora_A." in name or ".lora_B." in name


def peft_config(overrides, weights):
    said = dict(override.split("=", 1) for override in overrides if override.startswith("lora."))
    listed = lambda key: said[key].strip("[]").split(", ") if key in said else None
    every = sorted({name.split(".")[-3] for name in weights if is_adapter(name)})
    return peft.LoraConfig(r=int(said["lora.rank"]), lora_alpha=float(said.get("lora.alpha", 16)), lora_dropout=0.0,
                           use_rslora=said.get("lora.use_rslora") == "true", bias="none", task_type="CAUSAL_LM",
                           target_modules=listed("lora.modules") or every, modules_to_save=listed("lora.also_train"))


def model_of(result, overrides):
    """peft's model of a dump, and what it trains by our names."""
    whole = result.tensors["weights"]
    adapters = {name: tensor for name, tensor in whole.items() if is_adapter(name)}
    result.tensors["weights"] = {name: tensor for name, tensor in whole.items() if name not in adapters}
    model = peft.get_peft_model(reference_models.model_of(result), peft_config(overrides, whole)).eval()
    name_of = lambda name: name.removeprefix("base_model.model.").replace(".default", "").replace(".modules_to_save", "")
    own = {name_of(name): parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name for name in own if is_adapter(name)} == adapters.keys(), "peft has the same adapters"
    with torch.no_grad():
        for name, tensor in adapters.items():
            own[name].copy_(tensor)
    return model, own


def reference(result, overrides, ids):
    """peft's loss and gradients."""
    model, own = model_of(result, overrides)
    loss = reference_models.mean_loss(model, ids)
    loss.backward()
    return loss.item(), {name: parameter.grad for name, parameter in own.items()}


KNOWN = dump.Once()


def compare(name, ranks, output):
    overrides, _, limit = CASES[name]
    result = dump.Dump(output, ranks, ("weights", "gradients"))
    ids = dump.read_ids(output, 41)
    loss, gradients = KNOWN.of(name, {**result.tensors["weights"], "ids": ids}, lambda: reference(result, overrides, ids))
    ours = result.tensors["gradients"]
    for other in ours.keys() - gradients.keys():
        assert not ours[other].any(), f"{other} is frozen and has a gradient"
    errors = {key: dump.relative_error(ours[key], gradients[key]) for key in gradients}
    errors["loss"] = abs(result.loss - loss) / loss
    return dump.verdict(name, ranks, errors, limit)


def check_start(output):
    """A as peft draws it: uniform up to 1 / sqrt(inputs); B zero."""
    for name, tensor in dump.Dump(output, 1, ("weights",)).tensors["weights"].items():
        if ".lora_A." in name:
            bound = tensor.shape[1] ** -0.5
            assert 0.9 * bound < tensor.abs().max() <= bound and abs(tensor.mean()) < 0.2 * bound, name
        assert ".lora_B." not in name or not tensor.any(), name


def with_dropout(cases, overrides=()):
    return [{"name": name, "training": True, "overrides": [*overrides, *LORA, "lora.dropout=0.25", *more]}
            for name, more in cases.items()]


def same_masks(outputs, name_of_plain):
    """Dropout depends on the sample alone, not on ranks or recomputation, and does something."""
    first, plain = None, dump.Dump(outputs[name_of_plain, 1], 1, ())
    for (name, ranks), output in outputs.items():
        if not name.startswith("dropout"):
            continue
        result = dump.Dump(output, ranks, ("gradients",))
        first = first or result
        assert abs(result.loss - first.loss) < 1e-6 * first.loss, (name, ranks, result.loss, first.loss)
        for key, gradient in result.tensors["gradients"].items():
            if first.tensors["gradients"][key].any():
                assert dump.relative_error(gradient, first.tensors["gradients"][key]) < EXACT, (name, ranks, key)
    assert abs(first.loss - plain.loss) > 1e-4 * plain.loss, (first.loss, plain.loss)


def check_gradients(args, folder):
    start = {"name": "start", "mode": "weights", "perturb": 0, "overrides": LORA}
    outputs = dump.compare_gradients(args, folder, CASES, compare, [*with_dropout(DROPPED), start])
    check_start(outputs["start", 1])
    same_masks(outputs, "all")


def saved_by_peft(args, folder):
    """An adapter that peft makes of the base in `folder`/hf, and imported as `folder`/imported; the model, the recipe's keys."""
    config = peft.LoraConfig(r=5, lora_alpha=7, target_modules=r".*\.(o_proj|up_proj)", modules_to_save=["lm_head"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(folder / "hf"), config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder / "of-peft")
    trained.command(args.ckpt, "import", folder / "of-peft", "--base", folder / "hf", "--output", folder / "imported")
    return model, ["lora.rank=5", "lora.alpha=7", "lora.modules=[o_proj, up_proj]", "lora.also_train=[lm_head]"]


def check_exports(args, folder):
    """A base is trained, its fine-tuning with LoRA is exported in both ways."""
    base = ["model.kind=qwen3", "train.steps=2", "checkpoint.every_steps=2"]
    trained.train(args, folder / "base", base, 1)
    tuned = [*base, *PART, "lora.dropout=0.1", f"checkpoint.init_from={folder / 'base'}"]
    trained.train(args, folder / "tuned", [*tuned, "train.steps=4", "optim.ema_decay=0.5", "optim.lr=0.02"], 2)
    checkpoint = trained.step_folder(folder / "tuned", 4)
    trained.command(args.ckpt, "export", folder / "base", "--output", folder / "hf")
    for ema in ([], ["--ema"]):
        adapter, merged = folder / f"adapter{len(ema)}", folder / f"merged{len(ema)}"
        trained.command(args.ckpt, "export", checkpoint, "--output", adapter, "--base", folder / "hf", *ema)
        trained.command(args.ckpt, "export", checkpoint, "--output", merged, "--merge", *ema)
        assert json.loads((adapter / "adapter_config.json").read_text())["target_modules"] == ["q_proj", "v_proj", "down_proj"]
        opened = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder / "hf"), adapter).eval()
        ids = torch.randint(0, 199, (3, 40))
        with torch.no_grad():
            logits = opened(input_ids=ids).logits
            ours = AutoModelForCausalLM.from_pretrained(merged).eval()(input_ids=ids).logits
            unchanged = AutoModelForCausalLM.from_pretrained(folder / "hf").eval()(input_ids=ids).logits
        assert dump.relative_error(ours, logits) < EXACT, dump.relative_error(ours, logits)
        assert dump.relative_error(unchanged, logits) > 1e-3, "the adapter does nothing"
        weights = safetensors.torch.load_file(merged / "model.safetensors")
        for name, tensor in opened.merge_and_unload().state_dict().items():
            assert dump.relative_error(weights[name], tensor) < 1e-6, name
    made, options = saved_by_peft(args, folder)
    # The engine's own logits of the checkpoints, by their recipes.
    asked = {"mode": "logits", "first": 0, "rows": 3}
    outputs = dump.dump(args, folder, 1, [{"name": "logits", "checkpoint": str(checkpoint), "overrides": tuned, **asked},
                                          {"name": "imported", "checkpoint": str(folder / "imported"),
                                           "overrides": [*base, *options], **asked}])
    for name, model in (("logits", AutoModelForCausalLM.from_pretrained(folder / "merged0").eval()), ("imported", made)):
        ids = dump.read_ids(outputs[name], 41)
        with torch.no_grad():
            theirs = model(input_ids=ids[:, :-1]).logits[:, -1]
        error = dump.relative_error(dump.read_f32(outputs[name], "logits").view(3, -1), theirs)
        assert error < EXACT, (name, error)
        print(f"ok   {name}: peft and the engine agree ({error:.1e})", flush=True)


def main():
    args = dump.arguments()
    torch.manual_seed(0)
    with dump.Folder() as folder:
        check_gradients(args, folder)
        check_exports(args, folder)


if __name__ == "__main__":
    main()
