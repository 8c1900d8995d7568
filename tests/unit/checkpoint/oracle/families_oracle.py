"""Imports and exports GPT-2, GPT-NeoX, T5 and Llama's families as transformers saves them: every weight comes back bit for bit under the name it had,
the checkpoint holds GPT-2's matrices the other way round, and the export gives the logits of the original, also when
another major version of transformers saved it.
usage: families_oracle.py ECHELON_CKPT MAJOR_VERSION PYTHONPATH_OF_THE_OTHER_VERSION | families_oracle.py --make FOLDER"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import safetensors.torch
import torch
import transformers
from transformers import (AutoModelForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, GPT2Model, GPTNeoXConfig, GPTNeoXForCausalLM, GraniteConfig, GraniteForCausalLM, LlamaConfig,
                          LlamaForCausalLM, MistralConfig, MistralForCausalLM, Olmo2Config, Olmo2ForCausalLM, Olmo3Config,
                          Olmo3ForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, SmolLM3Config,
                          SmolLM3ForCausalLM, T5Config, T5ForConditionalGeneration)

IDS = torch.tensor([[1, 5, 7, 2, 60], [3, 3, 0, 9, 11]])
COMPANIONS = ("spiece.model", "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "special_tokens_map.json",
              "added_tokens.json", "generation_config.json")
GPT2 = dict(vocab_size=64, n_positions=32, n_embd=24, n_layer=2, n_head=4)
T5 = dict(vocab_size=64, d_model=24, d_kv=5, d_ff=36, num_layers=2, num_decoder_layers=3, num_heads=4,
          relative_attention_num_buckets=8, relative_attention_max_distance=20)
NEOX = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=64)
LLAMA = dict(vocab_size=64, hidden_size=36, intermediate_size=40, num_hidden_layers=3, num_attention_heads=9, num_key_value_heads=3,
             max_position_embeddings=64)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=3.0, mscale=1.5, mscale_all_dim=0.5)


def rotary(theta, **scaling):
    """The settings as this version takes them."""
    if transformers.__version__.startswith("4."):
        return dict(rope_theta=theta, rope_scaling=scaling or None)
    return dict(rope_parameters={"rope_type": "default", **scaling, "rope_theta": theta})


def by_layer_type(theta, local=None, **scaling):
    """The same, where only layers without a window are stretched."""
    if transformers.__version__.startswith("4."):
        return dict(rotary(theta, **scaling), **({"rope_local_base_freq": local} if local else {}))
    return dict(rope_parameters={"full_attention": {"rope_type": "default", **scaling, "rope_theta": theta},
                                 "sliding_attention": {"rope_type": "default", "rope_theta": local or theta}})


def turned(factor, **rope):
    """Settings of rotary(), of a part of each head."""
    if transformers.__version__.startswith("4."):
        return dict(rope, partial_rotary_factor=factor)
    return dict(rope_parameters=dict(rope["rope_parameters"], partial_rotary_factor=factor))


def neox_rotary(theta, factor):
    if transformers.__version__.startswith("4."):
        return dict(rotary_emb_base=theta, rotary_pct=factor)
    return turned(factor, **rotary(theta))


MODELS = {
    "llama3": (LlamaForCausalLM, LlamaConfig, dict(LLAMA, tie_word_embeddings=True, **rotary(
        500.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32))),
    "mistral": (MistralForCausalLM, MistralConfig, dict(LLAMA, head_dim=6, sliding_window=3, **rotary(1e6))),
    "mistral_whole": (MistralForCausalLM, MistralConfig, dict(LLAMA, sliding_window=None, **rotary(1e4, rope_type="linear", factor=2.0))),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, dict(LLAMA, hidden_size=84, num_attention_heads=14, num_key_value_heads=2, **rotary(1e6))),
    "qwen2_window": (Qwen2ForCausalLM, Qwen2Config, dict(LLAMA, use_sliding_window=True, sliding_window=2, max_window_layers=1,
                                                         **rotary(1e6))),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, dict(LLAMA, head_dim=10, num_key_value_heads=1, tie_word_embeddings=True, **rotary(
        1e6, **YARN))),
    "olmo2": (Olmo2ForCausalLM, Olmo2Config, dict(LLAMA, **rotary(5e5))),
    "olmo3": (Olmo3ForCausalLM, Olmo3Config, dict(LLAMA, num_hidden_layers=5, sliding_window=3, **by_layer_type(
        5e5, rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=3.0))),
    "smollm3": (SmolLM3ForCausalLM, SmolLM3Config, dict(LLAMA, num_hidden_layers=4, no_rope_layer_interval=3, pad_token_id=0,
                                                        **rotary(2e6))),
    "smollm3_rotated": (SmolLM3ForCausalLM, SmolLM3Config, dict(LLAMA, no_rope_layers=[1, 1, 1], tie_word_embeddings=False,
                                                                pad_token_id=0, **rotary(5e6))),
    "granite": (GraniteForCausalLM, GraniteConfig, dict(LLAMA, embedding_multiplier=12.0, residual_multiplier=0.22,
                                                        attention_multiplier=0.25, logits_scaling=8.0, tie_word_embeddings=True,
                                                        **rotary(1e7))),
    "phi3": (Phi3ForCausalLM, Phi3Config, dict(LLAMA, sliding_window=3, pad_token_id=0, original_max_position_embeddings=16, **rotary(
        1e4, **{"type" if transformers.__version__.startswith("4.") else "rope_type": "longrope"}, short_factor=[1.0, 1.5],
        long_factor=[2.0, 4.0]))),
    "phi4": (Phi3ForCausalLM, Phi3Config, dict(LLAMA, pad_token_id=0, **rotary(2.5e5))),
    "phi4_mini": (Phi3ForCausalLM, Phi3Config, dict(
        LLAMA, hidden_size=80, num_attention_heads=10, num_key_value_heads=5, tie_word_embeddings=True, pad_token_id=0,
        original_max_position_embeddings=16, **turned(0.75, **rotary(
            1e4, **{"type" if transformers.__version__.startswith("4.") else "rope_type": "longrope"}, short_factor=[1.0, 1.5, 1.25],
            long_factor=[2.0, 4.0, 8.0])))),
    "pythia": (GPTNeoXForCausalLM, GPTNeoXConfig, NEOX),
    "neox_20b": (GPTNeoXForCausalLM, GPTNeoXConfig, dict(NEOX, hidden_act="gelu_fast", attention_probs_dropout_prob=0,
                                                         hidden_dropout_prob=0)),
    "neox": (GPTNeoXForCausalLM, GPTNeoXConfig, dict(NEOX, use_parallel_residual=False, tie_word_embeddings=True, hidden_dropout=0.125,
                                                     layer_norm_eps=1e-3, **neox_rotary(500.0, 0.75))),
    "gemma3": (Gemma3ForCausalLM, Gemma3TextConfig, dict(LLAMA, num_hidden_layers=7, head_dim=10, sliding_window=3,
                                                         query_pre_attn_scalar=20, **by_layer_type(
                                                             1e6, 1e4, rope_type="linear", factor=8.0))),
    "gemma3_whole": (Gemma3ForCausalLM, Gemma3TextConfig, dict(LLAMA, head_dim=10, **by_layer_type(1e6, 77.0),
                                                               layer_types=["full_attention"] * LLAMA["num_hidden_layers"])),
    "gpt2": (GPT2LMHeadModel, GPT2Config, GPT2),
    "gpt2_untied": (GPT2LMHeadModel, GPT2Config, dict(GPT2, tie_word_embeddings=False, n_inner=40, resid_pdrop=0.25, embd_pdrop=0.25)),
    "t5": (T5ForConditionalGeneration, T5Config, T5),
    "t5_1_1": (T5ForConditionalGeneration, T5Config, dict(T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
}
RECIPES = {
    "llama3": {"kind": "llama", "rope_theta": "500", "tie_embeddings": "true", "  kind": "llama3", "  factor": "8",
               "  original_positions": "32", "  low_freq_factor": "1", "  high_freq_factor": "4"},
    "mistral": {"kind": "mistral", "head_size": "6", "window": "3", "rope_theta": "1000000"},
    "mistral_whole": {"  kind": "linear", "  factor": "2"},
    "qwen2": {"kind": "qwen2", "heads": "14", "kv_heads": "2"},
    "qwen2_window": {"window": "2", "window_from_layer": "1"},
    "qwen3": {"kind": "qwen3", "head_size": "10", "kv_heads": "1", "  kind": "yarn", "  beta_fast": "3"},
    "olmo2": {"kind": "olmo2", "norm_eps": "1e-05", "rope_theta": "500000", "tie_embeddings": "false"},
    "olmo3": {"kind": "olmo3", "window": "3", "full_attention_every": "4", "  kind": "yarn", "  beta_fast": "3"},
    "smollm3": {"kind": "smollm3", "no_rope_every": "3", "tie_embeddings": "true", "rope_theta": "2000000"},
    "smollm3_rotated": {"tie_embeddings": "false"},
    "granite": {"kind": "granite", "embedding_multiplier": "12", "residual_multiplier": "0.22", "attention_multiplier": "0.25",
                "logits_scaling": "8"},
    "phi3": {"kind": "phi3", "window": "3", "  kind": "longrope", "  original_positions": "16", "  short_factor": "[1, 1.5]"},
    "phi4": {"kind": "phi3", "rope_theta": "250000"},
    "phi4_mini": {"kind": "phi3", "partial_rotary_factor": "0.75", "  kind": "longrope", "tie_embeddings": "true"},
    "pythia": {"kind": "gpt_neox", "partial_rotary_factor": "0.25", "use_parallel_residual": "true", "rope_theta": "10000",
               "tie_embeddings": "false", "dropout": "0", "norm_eps": "1e-05"},
    "neox_20b": {"hidden_act": "gelu_fast"},
    "neox": {"partial_rotary_factor": "0.75", "use_parallel_residual": "false", "rope_theta": "500", "tie_embeddings": "true",
             "dropout": "0.125", "norm_eps": "0.001"},
    "gemma3": {"kind": "gemma3_text", "head_size": "10", "window": "3", "full_attention_every": "6", "window_rope_theta": "10000",
               "query_pre_attn_scalar": "20", "  kind": "linear", "  factor": "8", "tie_embeddings": "true"},
    "gemma3_whole": {"rope_theta": "1000000", "query_pre_attn_scalar": "256"},
    "gpt2": {"kind": "gpt2", "intermediate_size": "96", "max_positions": "32", "tie_embeddings": "true", "dropout": "0.1",
             "norm_eps": "1e-05"},
    "gpt2_untied": {"intermediate_size": "40", "tie_embeddings": "false", "dropout": "0.25"},
    "t5": {"kind": "t5", "layers": "2", "decoder_layers": "3", "head_size": "5", "feed_forward": "relu", "tie_embeddings": "true",
           "relative_buckets": "8", "relative_max_distance": "20", "norm_eps": "1e-06"},
    "t5_1_1": {"feed_forward": "gated_gelu", "tie_embeddings": "false"},
}


def fail(text):
    sys.exit(f"families_oracle.py under transformers {transformers.__version__}: {text}")


def build(name):
    """A model of random weights, biases and norms too."""
    kind, config, values = MODELS[name]
    torch.manual_seed(len(name))
    model = kind(config(**values)).eval()
    if name == "t5_1_1":  # transformers 5 ties the head of what it builds
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model


def logits_of(model):
    ids = {"decoder_input_ids": IDS[:, :4]} if isinstance(model, T5ForConditionalGeneration) else {}
    with torch.no_grad():
        return model.eval()(input_ids=IDS, **ids).logits.float()


def make(folder):
    """Every model as this version saves it, and its logits."""
    for name in MODELS:
        model = build(name)
        model.save_pretrained(folder / name)
        for companion in COMPANIONS[:-1]:  # the last one transformers writes
            (folder / name / companion).write_bytes(f"{name} {companion}".encode() + b"\0\xff")
        torch.save(logits_of(model), folder / f"{name}.logits")


def tool(*arguments):
    result = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        fail(f"{arguments}: exit code {result.returncode}: {result.stderr}")
    return result.stdout


def weights_in(folder):
    weights = {}
    for path in sorted(folder.glob("*.safetensors")):
        weights.update(safetensors.torch.load_file(path))
    return weights


def check_same(what, weights, expected):
    if sorted(weights) != sorted(expected):
        fail(f"{what}: {sorted(set(weights) ^ set(expected))} are on one side only")
    for name, tensor in expected.items():
        if weights[name].dtype != tensor.dtype or not torch.equal(weights[name].view(torch.uint8), tensor.view(torch.uint8)):
            fail(f"{what}: {name} differs")


def check_opens(what, folder, logits):
    kind = T5ForConditionalGeneration if "t5" in what else AutoModelForCausalLM
    model, info = kind.from_pretrained(folder, output_loading_info=True, dtype="auto")
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if info.get(problem):
            fail(f"{what}: {problem}: {info[problem]}")
    error = (logits_of(model) - logits).abs().max() / logits.abs().max()
    if not error < 1e-6:  # also for NaN
        fail(f"{what}: other logits, by {error:.1e}")


def check_storage(what, source, checkpoint, root):
    """The checkpoint's own layout: [out, in] for every product."""
    tool("consolidate", checkpoint, "--to", "hdf5", "--output", root / f"{what}.h5")
    turned = 0
    with h5py.File(root / f"{what}.h5") as file:
        for name, tensor in weights_in(source).items():
            stored = torch.from_numpy(file[f"model/{name}"][...])
            conv1d = ".c_" in name and name.endswith("weight")
            turned += conv1d
            if not torch.equal(stored, tensor.t() if conv1d else tensor):
                fail(f"{what}: {name} is not stored as it should be")
    if turned != (8 if "gpt2" in what else 0):
        fail(f"{what}: {turned} matrices are turned")


def check_recipe(what, said, checkpoint):
    file = next(checkpoint.glob("step-*/recipe.yaml"))
    valid = subprocess.run([pathlib.Path(sys.argv[1]).with_name("echelon"), "validate", file], capture_output=True, text=True)
    if valid.returncode != 0:
        fail(f"{what}: the recipe is refused: {valid.stderr}")
    recipe = file.read_text()
    for key, value in RECIPES[what].items():
        for text in (said, recipe):
            if f"\n  {key}: {value}\n" not in text:
                fail(f"{what}: the recipe lacks '{key}: {value}': {text}")


def check_model(what, source, root, options=(), logits=None):
    checkpoint, export, merged = root / f"{what}-ckpt", root / f"{what}-out", root / f"{what}-merged"
    said = tool("import", source, "--output", checkpoint, *options)
    tool("export", checkpoint, "--output", export, "--max-shard-size", "5KB")
    tool("consolidate", checkpoint, "--to", "safetensors", "--output", merged)
    for folder in (export, merged):
        check_same(f"{what} in {folder.name}", weights_in(folder), weights_in(source))
        check_opens(what, folder, logits)
        for companion in COMPANIONS:
            if (folder / companion).read_bytes() != (source / companion).read_bytes():
                fail(f"{what}: {companion} changed")
    return said, checkpoint


def check_variants(made, root):
    """Files as the hub has them."""
    bare = root / "bare"  # of GPT2Model: no prefix, no head, and the masks that old versions saved
    shutil.copytree(made / "gpt2", bare)
    weights = {name.removeprefix("transformer."): tensor for name, tensor in weights_in(made / "gpt2").items()}
    weights.update({"h.0.attn.bias": torch.ones(1, 1, 32, 32, dtype=torch.bool), "h.1.attn.masked_bias": torch.tensor(-1e4)})
    safetensors.torch.save_file(weights, bare / "model.safetensors", {"format": "pt"})
    (bare / "tokenizer").mkdir()
    config = json.loads((bare / "config.json").read_text())
    other_names = {"n_embd": "hidden_size", "n_head": "num_attention_heads", "n_layer": "num_hidden_layers",
                   "n_positions": "max_position_embeddings"}
    config = {other_names.get(key, key): value for key, value in config.items()}
    (bare / "config.json").write_text(json.dumps(config))
    said = tool("import", bare, "--output", root / "bare-ckpt")
    if "\n  heads: 4\n" not in said or "\n  max_positions: 32\n" not in said:
        fail(f"other names of transformers are not read: {said}")
    tool("export", root / "bare-ckpt", "--output", root / "bare-out")
    check_same("bare", weights_in(root / "bare-out"), weights_in(made / "gpt2"))
    copies = root / "copies"  # every copy of the embedding, and the table that T5 1.0 does not use
    shutil.copytree(made / "t5", copies)
    weights = weights_in(made / "t5")
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"):
        weights[name] = weights["shared.weight"].clone()
    weights["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.ones(8, 4)
    safetensors.torch.save_file(weights, copies / "model.safetensors", {"format": "pt"})
    tool("import", copies, "--output", root / "copies-ckpt")
    tool("export", root / "copies-ckpt", "--output", root / "copies-out")
    check_same("copies", weights_in(root / "copies-out"), weights_in(made / "t5"))
    check_tied_without_scale(made, root)
    half = root / "half"
    model = build("gpt2").to(torch.bfloat16)
    model.save_pretrained(half)
    tool("import", half, "--output", root / "half-ckpt", "--dtype", "same", "--world", 5)
    tool("export", root / "half-ckpt", "--output", root / "half-out")
    check_same("half", weights_in(root / "half-out"), weights_in(half))


def check_tied_without_scale(made, root):
    """What transformers 5 makes of T5 1.1: the head is the embedding, and the decoder's outputs go into it as they are."""
    folder = root / "unscaled"
    shutil.copytree(made / "t5", folder)
    edit_config(folder, tie_word_embeddings=True, scale_decoder_outputs=False)
    said = tool("import", folder, "--output", root / "unscaled-ckpt")
    if "\n  tie_embeddings: false\n" not in said:
        fail(f"unscaled: the recipe is another one: {said}")
    tool("export", root / "unscaled-ckpt", "--output", root / "unscaled-out")
    weights = weights_in(folder)
    weights["lm_head.weight"] = weights["shared.weight"]
    check_same("unscaled", weights_in(root / "unscaled-out"), weights)
    if transformers.__version__.startswith("5."):
        model = T5ForConditionalGeneration.from_pretrained(folder)
    else:  # which cannot compute the folder itself
        model = T5ForConditionalGeneration(T5Config(**T5, tie_word_embeddings=False))
        model.load_state_dict(weights, strict=False)
    logits = logits_of(model)
    if torch.allclose(logits, logits_of(T5ForConditionalGeneration.from_pretrained(made / "t5"))):
        fail("unscaled: the two kinds of head do not differ")
    check_opens("t5 unscaled", root / "unscaled-out", logits)


def edit_config(folder, **values):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


def check_refusals(made, root):
    cases = {
        "gpt2": {"'activation_function' is 'relu'": dict(activation_function="relu"),
                 "'scale_attn_weights' is false": dict(scale_attn_weights=False),
                 "'scale_attn_by_inverse_layer_idx' is true": dict(scale_attn_by_inverse_layer_idx=True),
                 "'add_cross_attention' is true": dict(add_cross_attention=True),
                 "does not divide": dict(n_head=5),
                 "'n_layer'": dict(n_layer=10**9),
                 "'n_embd'": dict(n_embd=-24),
                 "'n_positions' is 0": dict(n_positions=0),
                 "'transformer.h.2.ln_1.weight' [24] of config.json's model is missing": dict(n_layer=3),
                 "[24, 96]; config.json requires [24, 95]": dict(n_inner=95),
                 "is not part of the model in config.json": dict(n_layer=1),
                 "holds a base model, without the head ('lm_head.weight')": dict(tie_word_embeddings=False),
                 "'n_head' is 4, but by 'num_attention_heads' 6": dict(num_attention_heads=6),
                 "'embd_pdrop' is 0.2 and 'resid_pdrop' 0.1": dict(embd_pdrop=0.2),
                 "'resid_pdrop' is 1; expected a number from 0 to less than 1": dict(resid_pdrop=1.0),
                 "'layer_norm_epsilon' is 0; expected": dict(layer_norm_epsilon=0.0),
                 "'layer_norm_epsilon' is -1; expected": dict(layer_norm_epsilon=-1.0),
                 "'scale_attn_by_head' is 3. The importer does not know": dict(scale_attn_by_head=3)},
        "t5": {"'feed_forward_proj' is 'gated-silu'": dict(feed_forward_proj="gated-silu"),
               "'dense_act_fn' is 'gelu'": dict(dense_act_fn="gelu"),
               "'is_gated_act' is true": dict(is_gated_act=True),
               "'is_encoder_decoder' is false": dict(is_encoder_decoder=False),
               "'umt5' cannot be imported": dict(model_type="umt5"),
               "'num_decoder_layers'": dict(num_decoder_layers=10**9),
               "'d_kv'": dict(d_kv="64"),
               "'decoder_start_token_id' is 2": dict(decoder_start_token_id=2),
               "'tie_encoder_decoder' is true": dict(tie_encoder_decoder=True),
               "'relative_attention_num_buckets' is 7; expected an even number": dict(relative_attention_num_buckets=7),
               "'dropout_rate' is 1; expected": dict(dropout_rate=1),
               "'num_heads' is 4, but by 'num_attention_heads' 2": dict(num_attention_heads=2),
               "[20, 24]; config.json requires [24, 24]": dict(d_kv=6)},
        "olmo2": {"'attention_bias' is true": dict(attention_bias=True),
                  "stretched rotary positions of olmo2": dict(rope_scaling={"type": "linear", "factor": 2.0}, rope_parameters=None)},
        "olmo3": {"'layer_types' is not what": dict(layer_types=["full_attention"] * 2 + ["sliding_attention"] * 3),
                  "'sliding_attention' other than the type default": dict(rope_scaling=None, rope_parameters={
                      "full_attention": {"rope_type": "default", "rope_theta": 5e5},
                      "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}),
                  "must have the objects 'full_attention' and": dict(rope_scaling=None, rope_parameters={"full_attention": {}}),
                  "'rope_theta' is missing": dict(rope_theta=None, rope_parameters=None)},
        "smollm3": {"'no_rope_layers' is not": dict(no_rope_layers=[1, 0, 1, 1]),
                    "no block has rotary positions": dict(no_rope_layers=[0, 0, 0, 0]),
                    "'use_sliding_window' is true": dict(use_sliding_window=True, sliding_window=4)},
        "granite": {"'residual_multiplier' is 0; expected a number": dict(residual_multiplier=0),
                    "'mlp_bias' is true": dict(mlp_bias=True),
                    "'logits_scaling' must be a number": dict(logits_scaling="8")},
        "llama3": {"'partial_rotary_factor' is 0.5": dict(partial_rotary_factor=0.5)},
        "pythia": {"'hidden_act' is 'relu'": dict(hidden_act="relu"),
                   "'attention_bias' is false": dict(attention_bias=False),
                   "'attention_dropout' is 1; expected": dict(attention_dropout=1),
                   "the head size is 8, of which 1 are rotated": dict(rotary_pct=0.2, partial_rotary_factor=0.2, rope_parameters=None),
                   "'rope_theta' is 100, but by 'rotary_emb_base' 200": dict(rope_theta=100, rotary_emb_base=200, rope_parameters=None),
                   "stretched rotary positions of gpt_neox": dict(rope_scaling={"type": "linear", "factor": 2.0}, rope_parameters=None),
                   "does not divide hidden_size": dict(num_attention_heads=5)},
        "neox": {"without the head ('embed_out.weight')": dict(tie_word_embeddings=False)},
        "phi3": {"has 2 numbers; expected 1": dict(partial_rotary_factor=0.5, rope_parameters=None, rope_scaling={
                     "type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [1.0, 1.0]}),
                 "'full_attn_mod' is 2": dict(full_attn_mod=2),
                 "has 1 numbers; expected 2": dict(rope_parameters=None, rope_scaling={
                     "type": "longrope", "short_factor": [1.0], "long_factor": [1.0, 2.0]}),
                 "'long_factor' must be a list": dict(rope_parameters=None, rope_scaling={
                     "type": "longrope", "short_factor": [1.0, 1.0]}),
                 "rotary positions of type 'linear'": dict(rope_parameters=None, rope_scaling={"type": "linear", "factor": 2.0}),
                 "'resid_pdrop' is 0.1": dict(resid_pdrop=0.1)},
        "gemma3": {"'final_logit_softcapping' is 30.0. The importer does not know": dict(final_logit_softcapping=30.0),
                   "'use_bidirectional_attention' is true. The importer": dict(use_bidirectional_attention=True),
                   "'hidden_activation' is 'silu'": dict(hidden_activation="silu"),
                   "'gemma3' cannot be imported": dict(model_type="gemma3")},
        "t5_1_1": {"the two differ": dict(tie_word_embeddings=True, scale_decoder_outputs=True)},
    }
    count = 0
    for name, changes in cases.items():
        for part, values in changes.items():
            folder = root / f"refused-{count}"
            shutil.copytree(made / name, folder)
            edit_config(folder, **values)
            result = subprocess.run([sys.argv[1], "import", folder, "--output", root / "refused"], capture_output=True, text=True)
            if result.returncode != 5 or part not in result.stderr or result.stderr.count("\n") != 1:
                fail(f"{name} with {values}: exit code {result.returncode}: {result.stderr}")
            if (root / "refused").exists():
                fail(f"{name} with {values}: something was left behind")
            count += 1
    return count


def main():
    if sys.argv[1] == "--make":
        return make(pathlib.Path(sys.argv[2]))
    _, _, major, other = sys.argv
    if transformers.__version__.split(".")[0] != major:
        fail(f"this is not version {major}")
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        here, there = root / "here", root / "there"
        make(here)
        subprocess.run([sys.executable, __file__, "--make", there], check=True, env={**os.environ, "PYTHONPATH": other})
        for made in (here, there):
            work = root / f"work-{made.name}"
            work.mkdir()
            for name in MODELS:
                logits = torch.load(made / f"{name}.logits")
                said, checkpoint = check_model(name, made / name, work, ("--world", len(name)), logits)
                check_recipe(name, said, checkpoint)
                check_storage(name, made / name, checkpoint, work)
            check_variants(made, work)
            refused = check_refusals(made, work)
        print(f"{len(MODELS)} models saved by two versions of transformers come back, {refused} configurations refused")


if __name__ == "__main__":
    main()
