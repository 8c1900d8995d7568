"""Imports Llamas that transformers saved: the weights come back bit for bit and give the same logits, and every
folder that is not what it should be is refused in one line and leaves nothing behind.
usage: import_oracle.py ECHELON_CKPT"""
import json
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

TOOL = sys.argv[1]
IDS = torch.tensor([[1, 5, 7, 2, 60]])


def run(*arguments, limit=None):
    def less_memory():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, preexec_fn=less_memory)


def fail(text):
    sys.exit(f"import_oracle.py: {text}")


def ok(*arguments, **options):
    result = run(*arguments, **options)
    if result.returncode != 0:
        fail(f"{arguments}: exit code {result.returncode}: {result.stderr}")
    return result.stdout


def make_llama(folder, tie=False, dtype=torch.float32, **save):
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=tie, rope_theta=5e5)
    model = LlamaForCausalLM(config).to(dtype)
    model.save_pretrained(folder, **save)
    (folder / "tokenizer.model").write_bytes(b"not\0text")
    (folder / "README.md").write_text("no part of a checkpoint")


def load_weights(folder):
    weights = {}
    for path in sorted(folder.glob("*.safetensors")):
        weights.update(safetensors.torch.load_file(path))
    return weights


def same_weights(what, weights, expected, dtype):
    if sorted(weights) != sorted(expected):
        fail(f"{what}: {sorted(set(weights) ^ set(expected))} are on one side only")
    for name, tensor in expected.items():
        wanted = tensor.to(dtype)
        if weights[name].dtype != dtype or not torch.equal(weights[name].view(torch.uint8), wanted.view(torch.uint8)):
            fail(f"{what}: {name} differs or has type {weights[name].dtype}")


def round_trip(root, name, source, dtype, *options):
    checkpoint, export = root / f"{name}-ckpt", root / f"{name}-out"
    said = ok("import", source, "--output", checkpoint, *options)
    ok("verify", checkpoint)
    ok("consolidate", checkpoint, "--to", "safetensors", "--output", export)
    folder = source if source.is_dir() else source.parent
    same_weights(name, load_weights(export), load_weights(folder), dtype)
    if (export / "tokenizer.model").read_bytes() != b"not\0text" or (export / "README.md").exists():
        fail(f"{name}: not the files that belong to the weights")
    with torch.no_grad():
        again = AutoModelForCausalLM.from_pretrained(export, dtype="auto")
        original = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        if again.dtype != dtype or not torch.equal(again(IDS).logits, original(IDS).logits):
            fail(f"{name}: other logits, or type {again.dtype}")
    return said


def check_good(root):
    single, sharded, tied, half = (root / name for name in ("single", "sharded", "tied", "half"))
    make_llama(single)
    said = round_trip(root, "fp32", single, torch.float32)
    for line in ("kind: llama", "vocab_size: 64", "kv_heads: 2", "rope_theta: 500000", "norm_eps: 1e-06", "tie_embeddings: false"):
        if f"  {line}\n" not in said:
            fail(f"the recipe lacks '{line}': {said}")
    round_trip(root, "file", single / "model.safetensors", torch.float32, "--world", 1)
    round_trip(root, "to-bf16", single, torch.bfloat16, "--dtype", "bf16", "--world", 7)
    make_llama(sharded, max_shard_size="20KB")
    round_trip(root, "sharded", sharded, torch.float32, "--world", 3)
    index = json.loads((sharded / "model.safetensors.index.json").read_text())
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index["weight_map"]}))
    ok("import", sharded, "--output", root / "no-size")
    make_llama(tied, tie=True)
    round_trip(root, "tied", tied, torch.float32, "--world", 2)
    make_llama(half, dtype=torch.bfloat16)
    round_trip(root, "bf16", half, torch.bfloat16, "--dtype", "same")
    round_trip(root, "from-bf16", half, torch.float32)
    make_llama(half, dtype=torch.float16)
    round_trip(root, "from-fp16", half, torch.float32)
    # What old exports carry: a copy of a tied head, and buffers that are computed anew.
    weights = load_weights(tied)
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    weights["model.rotary_emb.inv_freq"] = torch.ones(4)
    safetensors.torch.save_file(weights, tied / "model.safetensors")
    ok("import", tied, "--output", root / "old")
    ranks = json.loads(ok("inspect", "--json", root / "sharded-ckpt"))["ranks"]
    if ranks != 3:
        fail(f"--world 3 gave {ranks} shards")


def check_thetas(root):
    """transformers 5 writes only rope_parameters, which 4 does not read: exports have both."""
    folder = root / "of-5"
    make_llama(folder)
    config = json.loads((folder / "config.json").read_text())
    theta = config.pop("rope_theta")
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
    (folder / "config.json").write_text(json.dumps(config))
    ok("import", folder, "--output", root / "of-5-ckpt")
    for command in (["export"], ["consolidate", "--to", "safetensors"]):
        output = root / f"of-5-{command[0]}"
        ok(*command, root / "of-5-ckpt", "--output", output)
        config = json.loads((output / "config.json").read_text())
        if config["rope_theta"] != 5e5 or config["rope_parameters"]["rope_theta"] != 5e5:
            fail(f"{command}: the export's theta is in one place only")
        (folder / "config.json").write_text(json.dumps({**config, "rope_parameters": None}))
        with torch.no_grad():
            logits = [AutoModelForCausalLM.from_pretrained(path)(IDS).logits for path in (folder, output)]
        if not torch.equal(*logits):
            fail(f"{command}: other logits")


def check_base_model(root):
    """AutoModel saves a tied model without the head, and names without its prefix."""
    folder = root / "base"
    make_llama(folder, tie=True)
    weights = {name.removeprefix("model."): tensor.clone() for name, tensor in load_weights(folder).items()}
    safetensors.torch.save_file(weights, folder / "model.safetensors")
    ok("import", folder, "--output", root / "base-ckpt")
    ok("export", root / "base-ckpt", "--output", root / "base-out")
    same_weights("base", load_weights(root / "base-out"), {f"model.{name}": tensor for name, tensor in weights.items()}, torch.float32)


class Refusals:
    """Each case changes a fresh copy of a good folder and names what the one line must say."""

    def __init__(self, root):
        self.root = root
        self.good = root / "good"
        make_llama(self.good, max_shard_size="20KB")
        self.one = root / "one"
        make_llama(self.one)
        self.count = 0

    def case(self, part, change, source=None, code=5, options=(), name=None):
        folder = self.root / f"case-{self.count}"
        self.count += 1
        shutil.copytree(source or self.good, folder, symlinks=True)
        change(folder)
        before = sorted(self.root.iterdir())
        result = run("import", folder / name if name else folder, "--output", self.root / "refused", *options)
        where = f"case {self.count - 1} ({part})"
        if result.returncode != code or part not in result.stderr or result.stderr.count("\n") != 1:
            fail(f"{where}: exit code {result.returncode}: {result.stderr}")
        if sorted(self.root.iterdir()) != before:
            fail(f"{where}: something was left behind")
        shutil.rmtree(folder)

    def edit_json(self, name, change):
        def apply(folder):
            content = json.loads((folder / name).read_text())
            change(content)
            (folder / name).write_text(json.dumps(content))
        return apply

    def config(self, part, **values):
        self.case(part, self.edit_json("config.json", lambda config: config.update(values)))

    def index(self, part, change):
        self.case(part, self.edit_json("model.safetensors.index.json", change))

    def weights(self, part, change):
        def apply(folder):
            weights = load_weights(folder)
            change(weights)
            safetensors.torch.save_file(weights, folder / "model.safetensors")
        self.case(part, apply, self.one)


def check_indexes(cases):
    file, other = sorted(path.name for path in cases.good.glob("model-*.safetensors"))[:2]
    cases.case("which is missing", lambda folder: (folder / file).unlink())
    cases.case("symbolic link", lambda folder: ((folder / file).rename(folder / "x"), (folder / file).symlink_to(folder / "x")))
    cases.case("symbolic link", lambda folder: ((folder / file).unlink(), (folder / file).symlink_to("/etc/passwd")))
    cases.case("not a regular file", lambda folder: ((folder / file).unlink(), (folder / file).mkdir()))
    cases.case("cut short", lambda folder: (folder / file).write_bytes((folder / file).read_bytes()[:-1]))
    cases.case("belong to no tensor", lambda folder: (folder / file).write_bytes((folder / file).read_bytes() + b"x"))
    cases.index("which does not contain it", lambda index: index["weight_map"].update({"model.norm.weight": file}))
    cases.case("is in", lambda folder: shutil.copy(folder / other, folder / file))
    cases.index("which does not contain it", lambda index: index["weight_map"].update({"more": file}))
    cases.index("is not listed in", lambda index: index["weight_map"].pop("model.norm.weight"))
    cases.index("'total_size' 5", lambda index: index["metadata"].update(total_size=5))
    cases.index("only plain names", lambda index: index["weight_map"].update({"model.norm.weight": "../" + file}))
    cases.index("only plain names", lambda index: index["weight_map"].update({"model.norm.weight": "/etc/passwd"}))
    cases.case("holds both", lambda folder: shutil.copy(folder / file, folder / "model.safetensors"))


def check_rope(cases):
    linear = {"rope_type": "linear", "factor": 2.0}
    llama3 = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 32}
    for part, rope in {
            "rotary positions of type 'longrope'": {"rope_type": "longrope", "factor": 2.0},
            "'factor' is missing": {"rope_type": "dynamic"},
            "'factor' is 0.5; expected a number from 1": {"rope_type": "linear", "factor": 0.5},
            "'low_freq_factor' is missing": llama3,
            "'low_freq_factor' is not below 'high_freq_factor'": {**llama3, "low_freq_factor": 4.0, "high_freq_factor": 1.0},
            "'beta_slow' is not below 'beta_fast'": {"rope_type": "yarn", "factor": 2.0, "beta_fast": 1, "beta_slow": 32},
            "'short_factor' is [1.0]. The importer does not know": {**linear, "short_factor": [1.0]},
            "'beta_fast' is 3. The importer does not know": {**linear, "beta_fast": 3},
            "'rope_scaling' has two types, \"yarn\" and \"linear\"": {**linear, "type": "yarn"},
            "'rope_scaling' must be an object": 8.0,
            "'rope_scaling' gives each kind of layer": {"full_attention": linear, "sliding_attention": {"rope_type": "default"}}}.items():
        cases.config(part, rope_scaling=rope, rope_parameters=None)
    cases.config("but 'rope_parameters' {\"factor\":4.0,\"rope_type\":\"linear\"}; remove the wrong one", rope_scaling=linear,
                 rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5})
    window = dict(model_type="qwen2", use_sliding_window=True, sliding_window=8, max_window_layers=1)
    cases.config("'layer_types' is not what 'sliding_window' and 'max_window_layers' say",
                 layer_types=["sliding_attention", "full_attention"], **window)
    cases.config("num_key_value_heads", num_key_value_heads=None, **window)


def check_configs(cases):
    cases.case("config.json, which describes the model, is missing", lambda folder: (folder / "config.json").unlink())
    cases.case("not valid JSON", lambda folder: (folder / "config.json").write_text("{"))
    cases.case("symbolic link", lambda folder: ((folder / "config.json").unlink(), (folder / "config.json").symlink_to("/etc/passwd")))
    cases.config("'gptj' cannot be imported", model_type="gptj")
    cases.config("quantized", quantization_config={"bits": 4})
    check_rope(cases)
    cases.config("'attention_bias' is true", attention_bias=True)
    cases.config("'hidden_act' is 'gelu'", hidden_act="gelu")
    cases.config("config.json requires [64, 32]", head_dim=16)
    cases.config("the head size is 9; rotary positions need an even one", head_dim=9)
    cases.config("the head counts do not divide", num_attention_heads=5)
    cases.config("'rms_norm_eps' is 0; expected a number greater than 0 and at most 1", rms_norm_eps=0)
    cases.config("'rope_theta' is 1000000.0 in 'rope_parameters', but by 'rope_scaling' 10000", rope_theta=None,
                 rope_scaling={"type": "default"}, rope_parameters={"rope_type": "default", "rope_theta": 1e6})
    cases.config("'rope_theta' is 500000.0, but by 'rope_parameters' 1000000.0", rope_parameters={"rope_theta": 1e6})
    for name in ("config.json", "generation_config.json"):
        marked = lambda folder, name=name: (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
        cases.case(f"{name}': it begins with a byte order mark", marked)
    cases.case("generation_config.json': not valid JSON", lambda folder: (folder / "generation_config.json").write_text("{"))
    cases.config("'rope_theta' is 0.5; expected a number from 1", rope_theta=0.5, rope_parameters=None)
    cases.config("'attention_dropout' is 1; expected a number from 0 to less than 1", attention_dropout=1)
    cases.config("'logit_scale' is 2.0. The importer does not know", logit_scale=2.0)
    cases.config("'vocab_size' is 1; expected an integer from 2", vocab_size=1)
    cases.config("'num_hidden_layers'", num_hidden_layers=10**9)
    cases.config("'num_hidden_layers'", num_hidden_layers=-1)
    cases.config("'vocab_size' is 0", vocab_size=0)
    cases.config("'model.layers.2.input_layernorm.weight' [32] of config.json's model is missing", num_hidden_layers=3)
    cases.config("is not part of the model in config.json", num_hidden_layers=1)
    cases.config("config.json requires [49, 32]", intermediate_size=49)
    cases.config("the two differ", tie_word_embeddings=True)


def check_files(cases):
    cases.weights("'model.norm.weight' [32] of config.json's model is missing", lambda weights: weights.pop("model.norm.weight"))
    cases.weights("holds a base model, without the head ('lm_head.weight')", lambda weights: weights.pop("lm_head.weight"))
    cases.weights("'extra' [3] is not part", lambda weights: weights.update(extra=torch.zeros(3)))
    cases.weights("config.json requires [32]", lambda weights: weights.update({"model.norm.weight": torch.ones(33)}))
    cases.weights("is int32", lambda weights: weights.update({"model.norm.weight": torch.ones(32, dtype=torch.int32)}))
    cases.weights("element type 'BOOL'", lambda weights: weights.update({"model.norm.weight": torch.ones(32, dtype=torch.bool)}))
    header = (struct.pack("<Q", 2**63) + b"{}")
    cases.case("states a header of", lambda folder: (folder / "model.safetensors").write_bytes(header), cases.one)
    cases.case("too few", lambda folder: (folder / "model.safetensors").write_bytes(b""), cases.one)
    for name in ("pytorch_model.bin", "model.pt", "__0_0.distcp"):
        cases.case("pickle", lambda folder: (folder / "model.safetensors").rename(folder / name), cases.one, code=2)
        cases.case("pickle", lambda folder: (folder / "model.safetensors").rename(folder / name), cases.one, code=2, name=name)
    cases.case("holds neither", lambda folder: (folder / "model.safetensors").unlink(), cases.one, code=2)
    cases.case("there is no", lambda folder: None, code=2, name="absent")
    cases.case("neither a folder nor", lambda folder: None, code=2, name="config.json")
    cases.case("--world", lambda folder: None, code=2, options=("--world", 0))
    cases.case("--dtype", lambda folder: None, code=2, options=("--dtype", "fp8"))


def check_outputs(root):
    for output, part in (("one", "exists already"), ("one/ckpt", "inside")):
        result = run("import", root / "one", "--output", root / output)
        if result.returncode != 2 or part not in result.stderr:
            fail(f"output {output}: {result.returncode}: {result.stderr}")


def check_memory(root):
    """128 MiB of fp32 weights through 96 MiB of address space, libraries included."""
    if run("--version", limit=96 << 20).returncode != 0:
        return  # built with the address sanitizer, which reserves terabytes of address space
    folder = root / "large"
    folder.mkdir()
    config = {"model_type": "llama", "vocab_size": 1 << 21, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
              "num_attention_heads": 1, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(config))
    at, header = 0, {}
    layer = "model.layers.0."
    shapes = {"model.embed_tokens": [1 << 21, 16], "model.norm": [16], layer + "input_layernorm": [16], layer + "post_attention_layernorm": [16]}
    shapes.update({layer + name: [16, 16] for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                                        "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")})
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name + ".weight"] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    ok("import", folder, "--output", root / "large-ckpt", limit=96 << 20)
    if sum(path.stat().st_size for path in (root / "large-ckpt").rglob("*.h5")) < 2 * at:
        fail("the large checkpoint is too small")


def main():
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        check_good(root)
        check_thetas(root)
        check_base_model(root)
        check_memory(root)
        refusals = root / "refusals"
        refusals.mkdir()
        cases = Refusals(refusals)
        check_indexes(cases)
        check_configs(cases)
        check_files(cases)
        check_outputs(refusals)
        print(f"{cases.count} bad inputs refused")


if __name__ == "__main__":
    main()
