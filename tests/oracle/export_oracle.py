"""What a run with a tokenizer exports opens in transformers 4 and 5 with AutoTokenizer, without sentencepiece, and generates
there what `echelon sample` prints, token for token (greedy)."""
import json
import os
import re
import random
import subprocess
import sys

from tokenizers import Tokenizer, pre_tokenizers

import dump
import byte_level
from trained import command

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa größe naïve 日本 tau 12 345 if:\n\treturn".split(" ")
PROMPTS = ["alpha beta", " two  spaces ", "größe\n\ttau 日本", "if:", "x"]
TOKENS = 12
TINY = ["train.steps=4", "train.global_batch_size=4", "model.init_std=0.6", "data.seq_len=16"]
T5 = ["model.kind=t5", "model.kv_heads=3", "model.max_positions=2048", "model.init_std=0.02", "data.kind=pairs",
      "data.target_len=16"]
CASES = {  # tokenizer, recipe
    "llama-trained": ("trained", ["data.kind=tokens", *TINY]),
    "llama-byte-level": ("byte-level", ["data.kind=tokens", *TINY]),
    "llama-prefix-space": ("prefix-space", ["data.kind=tokens", *TINY]),
    "llama-chat": ("chat", ["data.kind=tokens", *TINY]),  # imported; text ends as the model says, not as its tokenizer
    "gpt2-byte-level": ("byte-level", ["data.kind=tokens", *TINY, "model.kind=gpt2", "model.kv_heads=3"]),
    "t5-trained": ("trained-pairs", [*TINY, *T5]),
    "t5-unigram": ("unigram-pairs", [*TINY, *T5]),
}


def lines(count):
    draw = random.Random(3)
    return [" ".join(draw.choice(WORDS) for _ in range(30)) for _ in range(count)]


def make_tokenizer(path, prefix=False, specials=("<|endoftext|>",)):
    """As GPT-2's: no post-processor, one special symbol that ends a text."""
    words = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    byte_level.train(words, lines(200), 400, specials).save(str(path))


def chat_model(folder):
    """A fine-tuned Llama: <|im_end|> ends its text, and the tokenizer's name for an end is another token."""
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
    torch.manual_seed(5)
    ids = {"bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0}
    folder.mkdir()
    make_tokenizer(folder / "tokenizer.json", specials=["<|endoftext|>", "<|im_end|>"])
    size = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    config = LlamaConfig(vocab_size=size, hidden_size=48, intermediate_size=112, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-5, initializer_range=0.6, **ids)
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(eos_token_id=[1, 0])
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}))


def unigram(path):
    """As T5's."""
    import sentencepiece
    with open(path, "wb") as model:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(line for text in lines(200) for line in text.splitlines()), model_writer=model,
            model_type="unigram", vocab_size=120, hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
            minloglevel=2)


def prepare(args, folder):
    """Token files of every kind of tokenizer; {name: overrides}."""
    (folder / "texts").mkdir()
    for i, text in enumerate(lines(40)):
        (folder / "texts" / f"{i}.txt").write_text(text)
    with open(folder / "pairs.jsonl", "w") as file:
        for text in lines(60):
            print(json.dumps({"source": text[:50], "target": text[50:80]}), file=file)
    make_tokenizer(folder / "tokenizer.json")
    make_tokenizer(folder / "prefix.json", prefix=True)
    unigram(folder / "spiece.model")
    chat_model(folder / "hf")
    command(args.ckpt, "import", folder / "hf", "--output", folder / "imported")
    made = {}
    pairs = ["--format", "jsonl", "--input", "source", "--target", "target"]
    for name, source, options in (("trained", "texts", ["--train-tokenizer", 400]),
                                  ("byte-level", "texts", ["--tokenizer", folder / "tokenizer.json"]),
                                  ("chat", "texts", ["--tokenizer", folder / "hf"]),
                                  ("prefix-space", "texts", ["--tokenizer", folder / "prefix.json"]),
                                  ("trained-pairs", "pairs.jsonl", [*pairs, "--train-tokenizer", 400]),
                                  ("unigram-pairs", "pairs.jsonl", [*pairs, "--tokenizer", folder / "spiece.model"])):
        report = json.loads(command(args.echelon, "prepare", folder / source, "-o", folder / name, "--json", *options))
        made[name] = [f"data.path={folder / name / 'train.tok'}", f"model.vocab_size={report['vocab_size']}"]
    made["chat"].append(f"checkpoint.init_from={folder / 'imported'}")
    return made


def make(args, folder):
    """For each case an export, and what `echelon sample` prints."""
    prepared = prepare(args, folder)
    for name, (tokenizer, overrides) in CASES.items():
        checkpoint = folder / f"run-{name}"
        command(args.echelon, "train", dump.RECIPE, f"run.dir={checkpoint}", *prepared[tokenizer], *overrides)
        command(args.ckpt, "export", checkpoint, "--output", folder / name)
        said = [command(args.echelon, "sample", checkpoint, "--tokens", TOKENS, "--prompt", prompt)[:-1] for prompt in PROMPTS]
        (folder / f"{name}.json").write_text(json.dumps(said))


def decoded(tokenizer, ids, begins=False):
    """What the ids say. transformers shows each byte of a run that is no UTF-8 as a replacement, valid ones among them
    too, and drops the space in front; decoders of bytes, ours and Python's, replace only what is not valid."""
    if "\u2581" not in tokenizer.get_vocab():
        return tokenizer.decode(ids, skip_special_tokens=True)
    text = b""
    space = b""  # of the first word of a text
    for piece in tokenizer.convert_ids_to_tokens(ids):
        if piece == "<unk>":
            text += " \u2047 ".encode()  # as sentencepiece shows it
        elif re.fullmatch("<0x[0-9A-F]{2}>", piece):
            text += bytes([int(piece[3:5], 16)])
        elif piece not in tokenizer.all_special_tokens:
            space = b" " if begins and not text and piece.startswith("\u2581") else space
            text += piece.replace("\u2581", " ").encode()
    return text.removeprefix(space).decode("utf-8", "replace")


def check(folder):
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer
    assert not transformers.utils.is_protobuf_available(), "or the tokenizer might be read by other means"
    for name in CASES:
        encodes = name.startswith("t5")
        tokenizer = AutoTokenizer.from_pretrained(folder / name)
        model = (AutoModelForSeq2SeqLM if encodes else AutoModelForCausalLM).from_pretrained(folder / name).eval()
        config = json.loads((folder / name / "config.json").read_text())
        ends = config["eos_token_id"]
        assert model.generation_config.eos_token_id == ends, name
        assert tokenizer.eos_token_id == (1 if name == "llama-chat" else ends), name
        assert name != "llama-chat" or ends == [1, 0], ends
        assert tokenizer.bos_token_id == config["bos_token_id"], name
        plain = Tokenizer.from_file(str(folder / name / "tokenizer.json"))
        for prompt in PROMPTS:
            assert tokenizer(prompt)["input_ids"] == plain.encode(prompt).ids, (name, prompt)
        for prompt, said in zip(PROMPTS, json.loads((folder / f"{name}.json").read_text())):
            given = tokenizer(prompt, return_tensors="pt")
            ids = {key: given[key] for key in ("input_ids", "attention_mask")}
            with torch.no_grad():
                found = model.generate(**ids, max_new_tokens=TOKENS, do_sample=False)[0]
            if encodes:
                text = decoded(tokenizer, found[1:], begins=True)  # behind the start
            else:  # the prompt is printed as it was given
                text = prompt + decoded(tokenizer, found[given["input_ids"].shape[1]:])
            assert text == said, f"{name}, {prompt!r}: transformers {text!r}, echelon {said!r}, ids {found.tolist()}"
        print(f"ok {name} under transformers {transformers.__version__}", flush=True)


def main():
    if sys.argv[1] == "--check":
        return check(dump.pathlib.Path(sys.argv[2]))
    args = dump.arguments()
    with dump.Folder() as folder:
        make(args, folder)
        for path in ("", args.transformers5):
            subprocess.run([sys.executable, __file__, "--check", folder], check=True, env={**os.environ, "PYTHONPATH": path})


if __name__ == "__main__":
    main()
