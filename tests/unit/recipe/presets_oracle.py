"""Model presets beside other implementations: every model of docs/recipe.md's table is built by transformers (vit: with
its classifier; deepvit and cnn: written out here with torch) without storage, and has the parameters the table says and
about those the model was published with. Sizes that transformers has as defaults are compared too.
usage: presets_oracle.py RECIPE_MD"""
import pathlib
import re
import sys

import torch
import transformers
from torch import nn

# Millions of parameters, from model cards and papers.
PUBLISHED = {
    "llama_179m": 179.4, "llama_1b": 1235.8, "llama_3b": 3212.7, "llama_7b": 6738.4, "llama_8b": 8030.3, "llama_13b": 13015.9,
    "llama_70b": 70553.7, "smollm2_135m": 134.5, "smollm2_1_7b": 1711.4, "llama_3_2_1b": 1235.8, "llama_3_2_3b": 3212.7,
    "llama_3_1_8b": 8030.3, "mistral_7b": 7248.0, "qwen2_5_0_5b": 494.0, "qwen2_5_1_5b": 1543.7, "qwen2_5_7b": 7615.6,
    "qwen3_0_6b": 596.0, "qwen3_1_7b": 1720.6, "qwen3_4b": 4022.5, "qwen3_8b": 8190.7, "qwen3_14b": 14768.3, "qwen3_32b": 32762.1,
    "olmo2_1b": 1484.9, "olmo2_7b": 7298.6, "olmo2_13b": 13716.2, "olmo3_7b": 7298.0, "olmo3_32b": 32233.5, "smollm3_3b": 3075.1,
    "granite_3_3_2b": 2533.5, "granite_3_3_8b": 8170.8, "phi3_mini_4k": 3821.1, "phi4": 14659.5, "phi4_mini": 3836.0, "gemma3_270m": 268.1, "gemma3_1b": 999.9,
    "gpt2": 124.4, "gpt2_medium": 354.8, "gpt2_large": 774.0, "gpt2_xl": 1557.6, "gpt_175b": 175e3,
    "pythia_70m": 70.43, "pythia_160m": 162.32, "pythia_410m": 405.33, "pythia_1b": 1011.8, "pythia_1_4b": 1414.6, "pythia_2_8b": 2775.2,
    "pythia_6_9b": 6857.3, "pythia_12b": 11846.1, "gpt_neox_20b": 20554.6,
    "gpt_1t": 1008e3, "t5_small": 60.5, "t5_base": 222.9, "t5_large": 737.7, "t5_3b": 2851.6, "t5_11b": 11307.3,
    "t5_v1_1_small": 77.0, "t5_v1_1_base": 247.6, "t5_v1_1_large": 783.2, "t5_v1_1_xl": 2849.8, "t5_v1_1_xxl": 11135.3,
    "vit_base": 86.57, "vit_large": 304.3, "deepvit_500m": 500, "deepvit_1b": 1000, "deepvit_2b": 2000, "deepvit_3b": 3000,
    "deepvit_8b": 8000, "mnist_cnn": 1.2}
DEFAULTS = {"rope_scaling.kind": "default", "rope_scaling.factor": 1.0, "rope_scaling.original_positions": 0, "window": 0, "full_attention_every": 0, "no_rope_every": 0,
            "embedding_multiplier": 1.0, "residual_multiplier": 1.0, "attention_multiplier": 0.0, "logits_scaling": 1.0, "partial_rotary_factor": 1.0, "window_rope_theta": 0.0, "query_pre_attn_scalar": 0, "kv_heads": 3, "max_positions": 2048, "norm_eps": 1e-5, "rope_theta": 10000.0, "tie_embeddings": False, "dropout": 0.0,
            "vocab_size": 50000, "hidden_size": 768, "intermediate_size": 3072, "layers": 12, "heads": 12, "decoder_layers": 0,
            "head_size": 0, "feed_forward": "relu", "hidden_act": "gelu", "image_size": 224, "patch_size": 16, "channels": 3, "classes": 1000}


def fail(text):
    sys.exit(f"presets_oracle.py: {text}")


def presets(path):
    """Rows of the table: name, kind, parameters, sizes."""
    for name, kind, parameters, sizes in re.findall(r"^\| `(\w+)` \| `(\w+)` \| ([\d,]+) \| (.*?) \|", path.read_text(), re.M):
        values = dict(DEFAULTS)
        for key, value in re.findall(r"`([\w.]+)` ([\w.+-]+)", sizes):
            values[key] = type(DEFAULTS[key])(value == "true" if DEFAULTS[key] is False else value)
        yield name, kind, int(parameters.replace(",", "")), values


def llama(v, family="Llama"):
    config = getattr(transformers, "Gemma3TextConfig" if family == "Gemma3" else f"{family}Config")
    return getattr(transformers, f"{family}ForCausalLM")(config(
        vocab_size=v["vocab_size"], hidden_size=v["hidden_size"], intermediate_size=v["intermediate_size"],
        num_hidden_layers=v["layers"], num_attention_heads=v["heads"], num_key_value_heads=v["kv_heads"],
        head_dim=v["head_size"] or v["hidden_size"] // v["heads"], max_position_embeddings=v["max_positions"],
        tie_word_embeddings=v["tie_embeddings"]))


def gpt2(v):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=v["vocab_size"], n_positions=v["max_positions"], n_embd=v["hidden_size"], n_layer=v["layers"], n_head=v["heads"],
        n_inner=v["intermediate_size"], tie_word_embeddings=v["tie_embeddings"]))


def gpt_neox(v):
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(
        vocab_size=v["vocab_size"], hidden_size=v["hidden_size"], intermediate_size=v["intermediate_size"], num_hidden_layers=v["layers"],
        num_attention_heads=v["heads"], max_position_embeddings=v["max_positions"], tie_word_embeddings=v["tie_embeddings"]))


def t5(v):
    return transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=v["vocab_size"], d_model=v["hidden_size"], d_kv=v["head_size"], d_ff=v["intermediate_size"],
        num_layers=v["layers"], num_decoder_layers=v["decoder_layers"], num_heads=v["heads"],
        feed_forward_proj=v["feed_forward"].replace("_", "-"), tie_word_embeddings=v["tie_embeddings"]))


def vit(v):
    return transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=v["hidden_size"], intermediate_size=v["intermediate_size"], num_hidden_layers=v["layers"],
        num_attention_heads=v["heads"], image_size=v["image_size"], patch_size=v["patch_size"], num_channels=v["channels"],
        num_labels=v["classes"]))


def deepvit(v):
    """As the paper describes it: the attention maps of all heads are mixed by a matrix and normed over heads."""
    hidden, heads, patch = v["hidden_size"], v["heads"], v["patch_size"]
    patches = (v["image_size"] // patch) ** 2
    parts = [nn.Linear(patch * patch * v["channels"], hidden), nn.Embedding(patches + 2, hidden)]
    for _ in range(v["layers"]):
        parts += [nn.LayerNorm(hidden), nn.Linear(hidden, 3 * hidden, bias=False), nn.Embedding(heads, heads), nn.LayerNorm(heads),
                  nn.Linear(hidden, hidden), nn.LayerNorm(hidden), nn.Linear(hidden, v["intermediate_size"]),
                  nn.Linear(v["intermediate_size"], hidden)]
    return nn.ModuleList(parts + [nn.LayerNorm(hidden), nn.Linear(hidden, v["classes"])])


def cnn(v):
    """The tutorial's network; its size after the pool is asked of torch, not computed."""
    convolutions = nn.Sequential(nn.Conv2d(v["channels"], 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2))
    features = convolutions(torch.empty(1, v["channels"], v["image_size"], v["image_size"])).numel()
    return nn.ModuleList([convolutions, nn.Linear(features, 128), nn.Linear(128, v["classes"])])


def parameters_of(model):
    """Without the copies that a tied head or embedding is (v1.1 keeps its own head; transformers 5 ties it all the same)."""
    return sum(parameter.numel() for parameter in model.parameters())


def check_defaults(rows):
    """Configurations whose numbers are transformers' own defaults."""
    gpt, t5_small, base = transformers.GPT2Config(), transformers.T5Config(), transformers.ViTConfig()
    wanted = {
        "gpt2": dict(vocab_size=gpt.vocab_size, hidden_size=gpt.n_embd, layers=gpt.n_layer, heads=gpt.n_head, max_positions=gpt.n_positions,
                     norm_eps=gpt.layer_norm_epsilon, dropout=gpt.resid_pdrop, tie_embeddings=True),
        "t5_small": dict(vocab_size=t5_small.vocab_size, hidden_size=t5_small.d_model, head_size=t5_small.d_kv, layers=t5_small.num_layers,
                         intermediate_size=t5_small.d_ff, heads=t5_small.num_heads, norm_eps=t5_small.layer_norm_epsilon,
                         dropout=t5_small.dropout_rate, tie_embeddings=True, feed_forward="relu"),
        "vit_base": dict(hidden_size=base.hidden_size, layers=base.num_hidden_layers, heads=base.num_attention_heads,
                         intermediate_size=base.intermediate_size, norm_eps=base.layer_norm_eps, image_size=base.image_size,
                         patch_size=base.patch_size, channels=base.num_channels, dropout=base.hidden_dropout_prob)}
    for name, values in wanted.items():
        for key, value in values.items():
            if rows[name][key] != value:
                fail(f"{name}: {key} is {rows[name][key]}, transformers' default is {value}")


def main():
    families = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "olmo2": "Olmo2", "olmo3": "Olmo3",
                "smollm3": "SmolLM3", "granite": "Granite", "phi3": "Phi3", "gemma3_text": "Gemma3"}
    builders = {**{kind: lambda v, family=family: llama(v, family) for kind, family in families.items()},
                "gpt2": gpt2, "gpt_neox": gpt_neox, "t5": t5, "vit": vit, "deepvit": deepvit, "cnn": cnn}
    table = list(presets(pathlib.Path(sys.argv[1])))
    rows = {name: values for name, _, _, values in table}
    if only_one := rows.keys() ^ PUBLISHED.keys():
        fail(f"in docs/recipe.md or in PUBLISHED, but not in both: {', '.join(sorted(only_one))}")
    for name, kind, parameters, values in table:
        if kind not in builders:
            fail(f"{name}: nothing here builds a model of kind {kind}; write {kind}(v), and add it to builders")
        with torch.device("meta"):
            counted = parameters_of(builders[kind](values))
        if counted != parameters:
            fail(f"{name}: the table says {parameters:,} parameters, another implementation has {counted:,}")
        if abs(parameters / 1e6 / PUBLISHED[name] - 1) > 0.01:
            fail(f"{name}: {parameters / 1e6:.1f} M parameters, published with {PUBLISHED[name]} M")
    check_defaults(rows)
    print(f"{len(rows)} presets agree")


if __name__ == "__main__":
    main()
