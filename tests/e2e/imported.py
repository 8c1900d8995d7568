"""From a Hugging Face folder to a run and back: a step that changes no weight returns the bytes that were imported, on two
ranks, with every file that belongs to them."""
import json
import random
import struct

import product

COMPANIONS = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "spiece.model", "vocab.json", "merges.txt",
              "generation_config.json")
IDS = ("bos_token_id", "eos_token_id")
# A step of which fp32 keeps nothing.
STILL = ["optim.kind=sgd", "optim.lr=1e-30", "optim.weight_decay=0", "schedule.kind=constant", "train.steps=1",
         "train.micro_batch_size=1", "train.global_batch_size=2", "train.device=cpu", "train.threads_per_rank=1",
         "precision.param=fp32", "precision.buffer=fp32"]


def llama():
    hidden, inner, vocab, layers = 16, 24, 40, 2
    shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden], "lm_head.weight": [vocab, hidden]}
    for i in range(layers):
        for name, shape in {"input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.q_proj": [hidden, hidden],
                            "self_attn.k_proj": [8, hidden], "self_attn.v_proj": [8, hidden], "self_attn.o_proj": [hidden, hidden],
                            "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner]}.items():
            shapes[f"model.layers.{i}.{name}.weight"] = shape
    return shapes, {"model_type": "llama", "hidden_size": hidden, "intermediate_size": inner, "vocab_size": vocab,
                    "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
                    "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "bos_token_id": 3, "eos_token_id": [5, 7]}


def qwen3():
    """As transformers 5 writes it, with heads of a size of their own and stretched positions."""
    shapes, config = llama()
    for i in range(2):
        attention = f"model.layers.{i}.self_attn."
        shapes |= {attention + "q_proj.weight": [24, 16], attention + "k_proj.weight": [12, 16], attention + "v_proj.weight": [12, 16],
                   attention + "o_proj.weight": [16, 24], attention + "q_norm.weight": [6], attention + "k_norm.weight": [6]}
    return shapes, {**config, "model_type": "qwen3", "head_dim": 6, "use_sliding_window": False, "sliding_window": None,
                    "max_window_layers": 2, "layer_types": ["full_attention"] * 2, "rope_parameters": {
                        "rope_type": "yarn", "rope_theta": 5000.0, "factor": 4.0, "original_max_position_embeddings": 16}}


def gpt2():
    hidden, vocab, positions, layers = 16, 40, 32, 2
    shapes = {"transformer.wte.weight": [vocab, hidden], "transformer.wpe.weight": [positions, hidden],
              "transformer.ln_f.weight": [hidden], "transformer.ln_f.bias": [hidden]}
    for i in range(layers):
        for name, shape in {"ln_1": [hidden], "attn.c_attn": [hidden, 3 * hidden], "attn.c_proj": [hidden, hidden], "ln_2": [hidden],
                            "mlp.c_fc": [hidden, 4 * hidden], "mlp.c_proj": [4 * hidden, hidden]}.items():
            shapes[f"transformer.h.{i}.{name}.weight"] = shape
            shapes[f"transformer.h.{i}.{name}.bias"] = shape[-1:]
    return shapes, {"model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": 4, "n_positions": positions, "vocab_size": vocab}


def t5():
    hidden, inner, vocab, heads, head, buckets, layers = 16, 24, 40, 3, 6, 8, 2
    attention = {"q": [heads * head, hidden], "k": [heads * head, hidden], "v": [heads * head, hidden], "o": [hidden, heads * head]}
    shapes = {"shared.weight": [vocab, hidden], "lm_head.weight": [vocab, hidden]}
    for stack, kinds in {"encoder": ["SelfAttention"], "decoder": ["SelfAttention", "EncDecAttention"]}.items():
        shapes[f"{stack}.final_layer_norm.weight"] = [hidden]
        shapes[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = [buckets, heads]
        for i in range(layers):
            for number, kind in enumerate(kinds):
                for part, shape in attention.items():
                    shapes[f"{stack}.block.{i}.layer.{number}.{kind}.{part}.weight"] = shape
                shapes[f"{stack}.block.{i}.layer.{number}.layer_norm.weight"] = [hidden]
            layer = f"{stack}.block.{i}.layer.{len(kinds)}."
            shapes.update({layer + "DenseReluDense.wi_0.weight": [inner, hidden], layer + "DenseReluDense.wi_1.weight": [inner, hidden],
                           layer + "DenseReluDense.wo.weight": [hidden, inner], layer + "layer_norm.weight": [hidden]})
    return shapes, {"model_type": "t5", "d_model": hidden, "d_ff": inner, "d_kv": head, "num_heads": heads, "num_layers": layers,
                    "vocab_size": vocab, "relative_attention_num_buckets": buckets, "feed_forward_proj": "gated-gelu",
                    "tie_word_embeddings": False, "is_encoder_decoder": True}


LETTERS = [*"abcdefghijklmnopqrstuvwxyz", "Ġ", "Ċ"]
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT_END, IM_START, IM_END = range(len(LETTERS), len(LETTERS) + len(SPECIALS))


def letters_tokenizer(letters=tuple(LETTERS)):
    """A byte-level tokenizer.json of small letters, whose end of text is found by its name."""
    added = [{"id": len(LETTERS) + i, "content": name, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False} for i, name in enumerate(SPECIALS)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": byte_level, "decoder": byte_level,
            "post_processor": None, "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(letters)}, "merges": []}}


def write_safetensors(path, shapes, seed):
    """Random weights, none of them 0."""
    numbers = random.Random(seed)
    header, data = {}, b""
    for name, shape in sorted(shapes.items()):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack(f"<{count}f", *(numbers.choice((-1, 1)) * numbers.uniform(0.01, 0.3) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (tensor["shape"], content[8 + size + tensor["data_offsets"][0]:8 + size + tensor["data_offsets"][1]])
            for name, tensor in header.items()}


class Tests(product.Case):
    def make_folder(self, model):
        shapes, config = model
        folder = self.folder / "hf"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        write_safetensors(folder / "model.safetensors", shapes, 1)
        for name in COMPANIONS:
            (folder / name).write_bytes(name.encode() + b"\0\xff")
        ids = {key: config[key] for key in IDS if key in config}
        (folder / "generation_config.json").write_text(json.dumps({**ids, "pad_token_id": 0}))
        return folder

    def chat_folder(self, ends, name="hf"):
        """A Llama that talks in ChatML: text ends with another token than the tokenizer's own."""
        shapes, config = llama()
        folder = self.folder / name
        folder.mkdir()
        for file, content in {"config.json": {**config, "bos_token_id": None, "eos_token_id": IM_END}, "tokenizer.json": letters_tokenizer(),
                              "generation_config.json": {"eos_token_id": ends, "temperature": 0.7},
                              "tokenizer_config.json": {"eos_token": SPECIALS[2], "tokenizer_class": "PreTrainedTokenizerFast"}}.items():
            (folder / file).write_text(json.dumps(content))
        write_safetensors(folder / "model.safetensors", shapes, 1)
        (self.folder / "texts").mkdir(exist_ok=True)
        (self.folder / "texts/some.txt").write_text("the quick brown fox\n" * 40)
        return folder

    def prepared(self, tokenizer, output):
        return self.command(product.ECHELON, "prepare", "texts", "-o", output, "--validation-fraction", 0, "--tokenizer", tokenizer)

    def train_on(self, data, **more):
        recipe = next((self.folder / "imported").glob("step-*/recipe.yaml"))
        return self.train(recipe, "run.dir=run", "checkpoint.init_from=imported", "data.kind=tokens", f"data.path={data}/train.tok",
                          "data.seq_len=16", *STILL, **more)

    def test_documents_and_exports_end_as_the_model_does(self):
        source = self.chat_folder([IM_END, TEXT_END])
        self.command(product.CKPT, "import", source, "--output", "imported")
        said = self.prepared("hf", "data").err
        self.assertIn(f"documents end with id {IM_END} (<|im_end|>), as the model in 'hf' ends text", said)
        self.assertNotIn("documents end", self.prepared("hf", "data").out, "nothing to do")
        self.train_on("data")
        self.command(product.CKPT, "export", "run", "--output", "exported")
        read = {name: json.loads((self.folder / "exported" / f"{name}.json").read_text())
                for name in ("config", "generation_config", "tokenizer_config")}
        self.assertEqual([IM_END, TEXT_END], read["config"]["eos_token_id"])
        self.assertEqual({"eos_token_id": [IM_END, TEXT_END], "temperature": 0.7}, read["generation_config"])
        self.assertEqual("<|im_end|>", read["tokenizer_config"]["eos_token"])

    def test_documents_that_end_otherwise_are_refused(self):
        source = self.chat_folder(IM_END)
        self.command(product.CKPT, "import", source, "--output", "imported")
        (self.folder / "alone").mkdir()
        product.shutil.copy(source / "tokenizer.json", self.folder / "alone")
        self.prepared("alone/tokenizer.json", "data")
        said = self.train_on("data", code=4).err
        self.assertRegex(said, rf"end documents with id {TEXT_END} \(<\|endoftext\|>\), but the model of 'imported' "
                               rf"\(checkpoint.init_from\) ends text with {IM_END} \(<\|im_end\|>\): prepare [^\n]*--tokenizer 'imported/step-")
        self.assertNotIn("starting", said)
        self.assertFalse((self.folder / "run").exists())
        recipe = next((self.folder / "imported").glob("step-*/recipe.yaml"))
        said = self.command(product.ECHELON, "doctor", "recipe", recipe, "run.dir=run", "checkpoint.init_from=imported", "data.kind=tokens",
                            "data.path=data/train.tok", "data.seq_len=16", *STILL, code=3).out
        self.assertRegex(said, r"initial_weights[^\n]*end documents with id")
        self.prepared(next((self.folder / "imported").glob("step-*")), "again")
        self.train_on("again")

    def test_ids_of_another_tokenizer_are_refused(self):
        source = self.chat_folder([IM_END, TEXT_END])
        self.command(product.CKPT, "import", source, "--output", "imported")
        other = product.shutil.copytree(source, self.folder / "other")
        (other / "tokenizer.json").write_text(json.dumps(letters_tokenizer(LETTERS[25::-1] + LETTERS[26:])))
        self.prepared("other", "texts_other")
        (self.folder / "chatml").write_text("{% for m in messages %}{{ '<|im_start|>' + m.content + '<|im_end|>' }}{% endfor %}"
                                            "{% if add_generation_prompt %}{{ '<|im_start|>' }}{% endif %}")
        (self.folder / "chats.jsonl").write_text('{"messages": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "fox"}]}\n')
        self.command(product.ECHELON, "prepare", "chats.jsonl", "--format", "chat", "-o", "chats_other", "--validation-fraction", 0,
                     "--chat-template", "chatml", "--tokenizer", "other")
        said = rf"are not for the model of 'imported' \(checkpoint.init_from\): 26 of 27 ids [^\n]*--tokenizer 'imported/step-"
        self.assertRegex(self.train_on("texts_other", code=4).err, said)
        (self.folder / "tune.yaml").write_text("model: {from: hf}\ndata: {kind: chat, path: chats_other/train.tok, seq_len: 16}\n")
        said = self.train(self.folder / "tune.yaml", "run.dir=run", *STILL, code=4).err
        self.assertRegex(said, r"are not for the model of 'hf' \(model.from\): 26 of 27 ids [^\n]*--tokenizer 'hf'\n")
        self.assertFalse((self.folder / "run").exists())
        # A token that was renamed does not make another vocabulary.
        (source / "tokenizer.json").write_text(json.dumps(letters_tokenizer(LETTERS[25::-1] + ["Ġ", "Ā"])))
        self.train(self.folder / "tune.yaml", "run.dir=run", *STILL)

    def test_sampling_stops_at_every_end(self):
        def sampled(ends, name):
            self.command(product.CKPT, "import", self.chat_folder(ends, name), "--output", f"{name}-imported")
            return self.command(product.ECHELON, "sample", f"{name}-imported", "--prompt", "<|im_start|>the", "--tokens", 30,
                                "--temperature", 1).out
        whole = sampled([38, 39], "never")
        self.assertTrue(whole.startswith("<|im_start|>the"), whole)
        added = whole.removeprefix("<|im_start|>the")
        letter = next(c for c in added if c.isalpha())
        self.assertEqual(whole[:len(whole) - len(added) + added.index(letter)] + "\n", sampled([39, LETTERS.index(letter)], "soon"))

    def test_a_folder_whose_files_begin_texts_in_two_ways_is_refused(self):
        folder = self.chat_folder(IM_END)
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer", "add_bos_token": true}')
        said = self.command(product.ECHELON, "sample", "hf", "--prompt", "the", "--tokens", 2, code=4).err
        self.assertIn("add_bos_token is true, but the tokenizer beside it begins a text with no token", said)

    def comes_back(self, model, ranks=(2,)):
        source = self.make_folder(model)
        self.command(product.CKPT, "import", source, "--output", "imported")
        recipe = next((self.folder / "imported").glob("step-*/recipe.yaml"))
        self.command(product.ECHELON, "validate", recipe)
        self.train(recipe, "run.dir=run", "checkpoint.init_from=imported", *STILL, ranks=2)
        self.command(product.CKPT, "export", "run", "--output", "exported")
        config, exported = (json.loads((folder / "config.json").read_text()) for folder in (source, self.folder / "exported"))
        self.assertEqual([exported[key] for key in IDS], [config.get(key) for key in IDS])
        self.assertEqual(read_safetensors(source / "model.safetensors"), read_safetensors(self.folder / "exported/model.safetensors"))
        for name in COMPANIONS:
            self.assertEqual((source / name).read_bytes(), (self.folder / "exported" / name).read_bytes(), name)
        self.starts_as_imported(ranks)
        # The next run of the folder takes them from its own checkpoint: the imported one may be gone.
        product.shutil.rmtree(self.folder / "imported")
        recipe = next((self.folder / "run").glob("recipe.yaml"))
        self.train(recipe, "train.steps=2", ranks=2)
        self.command(product.CKPT, "export", "run", "--output", "again")
        self.assertEqual((source / "spiece.model").read_bytes(), (self.folder / "again/spiece.model").read_bytes())

    def starts_as_imported(self, ranks):
        """Runs with model.from have the weights of the one that started from the import, and on as many ranks its loss."""
        then = json.loads(self.command(product.ECHELON, "validate", "run/recipe.yaml", "--json").out)["recipe"]["data"]
        recipe = self.folder / "from.yaml"
        recipe.write_text(f"model: {{from: hf}}\ndata: {{kind: {then['kind']}, seq_len: {then['seq_len']}}}\n")
        imported = self.weights("run")
        for number in ranks:
            self.train(recipe, f"run.dir=from-{number}", *STILL, ranks=number)
            self.assertEqual(imported, self.weights(f"from-{number}"))
        self.assertEqual(self.losses("run", 1), self.losses("from-2", 1))
        said = self.command(product.ECHELON, "validate", recipe).out
        self.assertRegex(said, r"(?m)^ +hidden_size: 16 +# config.json of 'hf'$")

    def from_folder(self, *arguments, **more):
        (self.folder / "from.yaml").write_text("model: {from: hf}\ndata: {kind: synthetic_tokens, seq_len: 32}\n")
        return self.train("from.yaml", "run.dir=run", *STILL, "train.global_batch_size=3", *arguments, **more)

    def test_a_run_needs_its_folder_at_the_start_only(self):
        source = self.make_folder(llama())
        self.assertIn("weights of 'hf' (model.from)", self.from_folder(ranks=3).err)
        self.assertEqual(b"spiece.model\0\xff", (self.checkpoints()[-1] / "spiece.model").read_bytes())
        self.weights("run")
        self.assertEqual(read_safetensors(source / "model.safetensors"), read_safetensors(self.folder / "run-weights/model.safetensors"))
        shapes, _ = llama()
        write_safetensors(source / "model.safetensors", shapes, 2)
        said = self.from_folder("train.steps=2").err
        self.assertIn("warning: model.from 'hf' holds other weights than those that this run started from", said)
        product.shutil.rmtree(source)
        self.train("run/recipe.yaml", "train.steps=3")
        self.assertIn("model.from: there is no folder 'hf'", self.from_folder("train.steps=4", code=2).err)

    def test_a_folder_that_does_not_fit_is_refused_before_the_start(self):
        source = self.make_folder(llama())
        shapes, config = llama()
        write_safetensors(source / "model.safetensors", {**shapes, "model.norm.weight": [8]}, 1)
        said = self.from_folder(code=5).err
        self.assertIn("model.from 'hf': tensor 'model.norm.weight' has the shape [8]; config.json requires [16]", said)
        self.assertNotIn("starting", said)
        write_safetensors(source / "model.safetensors", {name: shapes[name] for name in shapes if "norm" not in name}, 1)
        self.assertRegex(self.from_folder(code=5).err, r"model.from 'hf': tensor 'model[^']*norm.weight' \[16\] of config.json's model is missing")
        said = self.from_folder("model.heads=2", "checkpoint.init_from=imported", code=2).err
        self.assertIn("model.heads is 2, but 4 by config.json of 'hf' (model.from); remove it", said)

    def test_a_folder_is_sampled_from_as_its_import(self):
        self.command(product.CKPT, "import", self.chat_folder([38, 39]), "--output", "imported")
        said = [self.command(product.ECHELON, "sample", model, "--prompt", "<|im_start|>the", "--tokens", 12).out
                for model in ("imported", "hf")]
        self.assertEqual(*said)
        self.assertTrue(said[1].startswith("<|im_start|>the"), said[1])

    def test_a_damaged_companion_is_fetched_or_missed(self):
        self.command(product.CKPT, "import", self.make_folder(llama()), "--output", "imported")
        recipe = next((self.folder / "imported").glob("step-*/recipe.yaml"))
        self.train(recipe, "run.dir=run", "checkpoint.init_from=imported", *STILL)
        recipe = "run/recipe.yaml"
        newest = self.checkpoints()[-1]
        (newest / "spiece.model").unlink()
        said = self.train(recipe, "train.steps=2").err
        self.assertRegex(said, r"warning: [^\n]*spiece\.model[^\n]*; the next checkpoint gets it from 'imported/step-")
        self.assertEqual(b"spiece.model\0\xff", (self.checkpoints()[-1] / "spiece.model").read_bytes())
        product.shutil.rmtree(self.folder / "imported")
        for folder in self.checkpoints():
            (folder / "generation_config.json").unlink()
        said = self.train(recipe, "train.steps=3", code=5).err
        self.assertRegex(said, r"resume: [^\n]*generation_config\.json[^\n]*restore the file from a backup")

    def test_special_ids_outlive_the_damage_of_a_config(self):
        """Neither the recipe nor synthetic data say them: the model does that the run started from."""
        self.command(product.CKPT, "import", self.make_folder(llama()), "--output", "imported")
        recipe = next((self.folder / "imported").glob("step-*/recipe.yaml"))
        for start, train in {"checkpoint.init_from": lambda *more: self.train(recipe, "run.dir=run", "checkpoint.init_from=imported", *STILL, *more),
                             "model.from": self.from_folder}.items():
            with self.subTest(start):
                product.shutil.rmtree(self.folder / "run", ignore_errors=True)
                train()
                (self.checkpoints()[-1] / "config.json").unlink()
                self.assertRegex(train("train.steps=2").err, r"warning: [^\n]*config\.json")
                config = json.loads((self.checkpoints()[-1] / "config.json").read_text())
                self.assertEqual([3, [5, 7]], [config[key] for key in IDS])

    def test_a_llama_comes_back_as_it_was(self):
        self.comes_back(llama())

    def test_a_qwen3_comes_back_as_it_was(self):
        self.comes_back(qwen3())
        exported = json.loads((self.folder / "exported/config.json").read_text())
        wanted = qwen3()[1]["rope_parameters"]
        for key, value in wanted.items():
            self.assertEqual(value, exported["rope_parameters"][key])
        self.assertEqual(wanted["rope_theta"], exported["rope_theta"])
        self.assertEqual({key: value for key, value in exported["rope_parameters"].items() if key != "rope_theta"},
                         exported["rope_scaling"])
        self.assertEqual((6, "qwen3"), (exported["head_dim"], exported["model_type"]))

    def test_a_gpt2_comes_back_as_it_was(self):
        self.comes_back(gpt2(), ranks=(1, 2))

    def test_a_t5_comes_back_as_it_was(self):
        self.comes_back(t5())


if __name__ == "__main__":
    product.main()
