"""A folder as Hugging Face's, with a byte-level tokenizer.json and a chat template, without any package."""
import json

CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_characters():
    """The characters that stand for the bytes, in the order of GPT-2's table."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(byte) for byte in plain] + [chr(0x100 + at) for at in range(256 - len(plain))]


def document(special=tuple(SPECIAL), merges=(("h", "e"), ("\u0120", "t"), ("t", "he"))):
    """tokenizer.json: special tokens first, then bytes, then what merges give."""
    words = [*special, *byte_characters(), *("".join(pair) for pair in merges)]
    added = [{"id": at, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for at, name in enumerate(special)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {word: at for at, word in enumerate(words)}, "merges": [" ".join(pair) for pair in merges]}}


def write(folder, template=CHATML, special=tuple(SPECIAL), **config):
    """`config`: further keys of tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(document(special)))
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", **config}
    (folder / "tokenizer_config.json").write_text(json.dumps({**names, "chat_template": template}))


def write_chats(path, chats):
    """`chats`: lists of (role, content)."""
    lines = [{"messages": [{"role": role, "content": content} for role, content in chat]} for chat in chats]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
