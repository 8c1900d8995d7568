"""Ids and decoded texts equal to those of the packages `tokenizers` and `sentencepiece`, on more than 10,000 texts for
each of several tokenizers trained here, and on every character of Unicode."""
import argparse
import io
import json
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import regex
import sentencepiece
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
from byte_level import ALPHABET, GPT2, LLAMA3, UNSPLIT, split_by, train

QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIALS = ["[PAD]", "[BOT]", "[EOT]", "[UNK]", "<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "</s>", "<s>",
            "<mask>", "word", "<extra_id_0>", "<extra_id_7>", "[MASK", "<0x41>", "<|end|>", "self.", "<unk>"]


def corpus():
    files = sorted(Path(torch.__file__).parent.rglob("*.py"))
    return [path.read_text(errors="replace") for path in files[::50]]


class Texts:
    """Random texts out of everything that tokenizers treat unlike."""

    def __init__(self, sources):
        self.random = random.Random(7)
        self.sources = sources
        self.parts = [self.source, self.spaces, self.digits, self.plane, self.combined, self.emoji, self.control,
                      self.contraction, self.special, self.cjk, self.latin, self.words, self.space_signs]

    def characters(self, ranges, count):
        first, last = self.random.choice(ranges)
        return "".join(chr(self.random.randint(first, last)) for _ in range(count))

    def source(self):
        text = self.random.choice(self.sources)
        at = self.random.randrange(len(text) + 1)
        return text[at:at + self.random.randint(1, 200)]

    def spaces(self):
        kinds = [" ", " ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u3000", "\u2028", "\x85", "\u180e", "\u200b", "\x0b",
                 "\x1c"]
        return "".join(self.random.choice(kinds) * self.random.choice([1, 1, 2, 3, 17]) for _ in range(4))

    def digits(self):
        return self.characters([(0x30, 0x39), (0x660, 0x669), (0x1d7ce, 0x1d7ff), (0x2460, 0x2473), (0xbc, 0xbe)],
                               self.random.randint(1, 9))

    def plane(self):
        return self.characters([(0x80, 0xd7ff), (0xe000, 0xffff), (0x10000, 0x1ffff), (0x20000, 0x323af),
                                (0xe0000, 0xe01ef), (0xf0000, 0x10ffff)], self.random.randint(1, 6))

    def combined(self):
        marks = self.characters([(0x300, 0x36f), (0x591, 0x5bd), (0x1ab0, 0x1aff), (0x20d0, 0x20f0)], 3)
        return self.random.choice("aeiouåñ한क ") + marks + self.characters([(0x1100, 0x11ff), (0xac00, 0xd7a3)], 2)

    def emoji(self):
        people = "\U0001f469\u200d\U0001f469\u200d\U0001f467\U0001f3fd\u2764\ufe0f"
        return people[:self.random.randint(1, len(people))] + self.characters([(0x1f300, 0x1faff)], 2)

    def control(self):
        return self.characters([(0, 0x1f), (0x7f, 0x9f), (0xfdd0, 0xfdef), (0x2060, 0x206f)], self.random.randint(1, 4))

    def contraction(self):
        return self.random.choice(["we're", "I'LL", "don't", "it\u017fs", "'\u017f", "he'd've", "'S", "''s", "o\u2019s"])

    def special(self):
        return self.random.choice(["", " ", "x", "_"]) + self.random.choice(SPECIALS) + self.random.choice(["", " ", "y"])

    def cjk(self):
        return self.characters([(0x4e00, 0x9fff), (0x3040, 0x30ff), (0xff01, 0xff9f), (0xf900, 0xfaff)], 5)

    def latin(self):
        return self.characters([(0xc0, 0x24f), (0x370, 0x3ff), (0x400, 0x4ff), (0x5d0, 0x64a), (0xfb00, 0xfb06)], 6)

    def words(self):
        return " ".join(self.random.choice(["self", "İstanbul", "ΑΣ", "ﬁne", "Ångström", "x²", "0x1F", "foo_bar", "…"])
                        for _ in range(4))

    def space_signs(self):
        """U+2581, which sentencepiece writes for a space."""
        return "".join(self.random.choice(["\u2581", "\u2581", " ", "a", "self", "\u2581\u2581", "\n", "é"]) for _ in range(4))

    def make(self, count):
        fixed = ["", " ", "\n", "[EOT]", " " * 1000, "a" * 3000, "\u00e9" * 500, "1" * 700, "\n" * 300, self.sources[0]]
        return fixed + ["".join(self.random.choice(self.parts)() for _ in range(self.random.randint(1, 6)))
                        for _ in range(count - len(fixed))]

    def make_invalid(self, count):
        """Bytes that are not UTF-8."""
        texts = []
        for text in self.make(count):
            raw = bytearray(text.encode()[:300]) or bytearray(b"x")
            for _ in range(3):
                raw[self.random.randrange(len(raw))] = self.random.randrange(256)
            texts.append(bytes(raw))
        return texts


ALL = [chr(c) for c in [*range(0xd800), *range(0xe000, 0x32400), *range(0xe0000, 0xe0200)]]


def unlike():
    """ALL without most of what repeats: of a run of characters of one kind, both ends and one in 16."""
    kinds = [(unicodedata.category(c), unicodedata.decomposition(c)[:1], c.lower() == c) for c in ALL]
    return [c for i, c in enumerate(ALL) if i % 16 == 0 or kinds[i - 1:i + 2] != [kinds[i]] * 3]


def sweep(characters, pattern):
    """Texts that hold every character in the places of `pattern`."""
    return ["".join(pattern.replace("?", c) for c in characters[i:i + 100]) for i in range(0, len(characters), 100)]


class Echelon:
    def __init__(self, program):
        self.program = program

    def encode(self, path, texts):
        """((BOS, EOS, vocab_size), [(ids, decoded text)])"""
        given = b"".join(struct.pack("<I", len(raw)) + raw
                         for raw in (text if isinstance(text, bytes) else text.encode() for text in texts))
        out = io.BytesIO(subprocess.run([self.program, path], input=given, stdout=subprocess.PIPE, check=True).stdout)
        header = struct.unpack("<3i", out.read(12))
        results = []
        for _ in texts:
            count, = struct.unpack("<I", out.read(4))
            ids = list(struct.unpack(f"<{count}i", out.read(4 * count)))
            size, = struct.unpack("<I", out.read(4))
            results.append((ids, out.read(size).decode()))
        assert not out.read(1)
        return header, results


def compare(name, texts, expected, found):
    for text, (ids, decoded), (our_ids, our_decoded) in zip(texts, expected, found, strict=True):
        if ids != our_ids:
            raise SystemExit(f"{name}: {text[:2000]!r}\n expected {ids[:2000]}\n found    {our_ids[:2000]}")
        if decoded is not None and decoded != our_decoded:
            raise SystemExit(f"{name}: {text!r} as {ids}\n decoded  {our_decoded!r}\n expected {decoded!r}")
    print(f"{name}: {len(texts)} texts, {sum(len(ids) for ids, _ in expected)} ids equal", flush=True)


def byte_level_steps():
    split = pre_tokenizers.Split
    return {
        "gpt2": GPT2,
        "gpt2 prefix": pre_tokenizers.ByteLevel(add_prefix_space=True),
        "llama3": split_by(LLAMA3),
        "deepseek": pre_tokenizers.Sequence([split(Regex(r"\p{N}{1,3}"), "isolated"),
                                             split(Regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
                                             split(Regex(DEEPSEEK), "isolated"), UNSPLIT]),
        "starcoder": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT2]),
        "digits": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False),
                                           pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)]),
        "removed": pre_tokenizers.Sequence([split("\n", "removed"), split(Regex(r"\S+"), "merged_with_previous"), UNSPLIT]),
        "merged": pre_tokenizers.Sequence([split(Regex(r"[\s.]"), "merged_with_next"),
                                           split(Regex(r"\d*"), "contiguous"), UNSPLIT]),
        "inverted": pre_tokenizers.Sequence([split(Regex(r"\p{Lu}?\p{Ll}+|\P{L}"), "removed", invert=True), UNSPLIT]),
    }


def gpt2(sources):
    return train(GPT2, sources, 3000)


def llama3(sources):
    tokenizer = train(split_by(LLAMA3), sources, 3000, ["<|begin_of_text|>", "<|end_of_text|>"], ignore_merges=True)
    template = processors.TemplateProcessing("<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def article(sources):
    words = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)
    return train(words, [text[:3000] for text in sources], 2000, ["[PAD]", "[BOT]", "[EOT]", "[UNK]"], [], byte_fallback=True,
                 unk_token="[UNK]")


def fused(sources):
    tokenizer = train(GPT2, sources[:20], 1000, ["[UNK]", "</s>"], [], unk_token="[UNK]", fuse_unk=True)
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def qwen(sources):
    tokenizer = train(split_by(QWEN), sources, 2500, normalizer=normalizers.NFC())
    tokenizer.add_tokens([AddedToken("word", single_word=True), AddedToken("<mask>", lstrip=True),
                          AddedToken("[MASK", rstrip=True, normalized=False), AddedToken("self.", normalized=True),
                          AddedToken("Ångström"), AddedToken("[EOT]", special=True), AddedToken("[EO")])
    return tokenizer


def lowercase(sources):
    tokenizer = train(byte_level_steps()["starcoder"], sources, 2000, ["<s>", "</s>"],
                      normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]))
    tokenizer.add_tokens([AddedToken("SELF", normalized=True, lstrip=True, rstrip=True), AddedToken("ﬁne", single_word=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    return tokenizer


SIGN = "\u2581"
FALLBACK = [decoders.Replace(SIGN, " "), decoders.ByteFallback(), decoders.Fuse()]


def of_characters(sources, normalizer, pre_tokenizer, decoder, fallbacks=range(256), **options):
    """BPE of characters: a small alphabet, so that most characters of Texts are not in it. Merges cross words where the
    pre-tokenizer leaves the text whole."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=["<unk>", "<s>", "</s>"], limit_alphabet=90,
                                  show_progress=False)
    tokenizer.train_from_iterator([text[:2000] + " \u00e9\u65e5" for text in sources], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    for byte in fallbacks:
        model["vocab"][f"<0x{byte:02X}>"] = len(model["vocab"])
    tokenizer.model = models.BPE(vocab=model["vocab"], merges=[tuple(merge) for merge in model["merges"]],
                                 unk_token="<unk>", **options)
    tokenizer.decoder = decoder
    tokenizer.add_tokens([AddedToken("<|end|>", special=True, rstrip=True, normalized=False), AddedToken("<mask>", lstrip=True),
                          AddedToken("self.", normalized=True), AddedToken("word", single_word=True, normalized=False)])
    return tokenizer


def llama2(sources):
    tokenizer = of_characters(sources, normalizers.Sequence([normalizers.Prepend(SIGN), normalizers.Replace(" ", SIGN)]), None,
                              decoders.Sequence([*FALLBACK, decoders.Strip(" ", 1, 0)]), fuse_unk=True, byte_fallback=True)
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def mistral(sources):
    return of_characters(sources, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                         decoders.Sequence([*FALLBACK, decoders.Strip(" ", 1, 0)]), fuse_unk=True, byte_fallback=True,
                         ignore_merges=True)


def gemma(sources):
    return of_characters(sources, normalizers.Replace(" ", SIGN), pre_tokenizers.Split(" ", "merged_with_previous"),
                         decoders.Sequence(FALLBACK), fuse_unk=True, byte_fallback=True)


def metaspace(sources):
    """Some bytes have no token, and unknown ones in a row stay apart."""
    return of_characters(sources, normalizers.NFKC(), pre_tokenizers.Metaspace(), decoders.Metaspace(), range(0x80, 0xe8),
                         byte_fallback=True)


def fused_metaspace(sources):
    return of_characters(sources, None, pre_tokenizers.Metaspace(prepend_scheme="never"),
                         decoders.Metaspace(prepend_scheme="never"), [], fuse_unk=True)


# trainer -> (BOS, EOS)
OF_CHARACTERS = {llama2: (1, 2), mistral: (1, 2), gemma: (1, 2), metaspace: (1, 2), fused_metaspace: (1, 2)}
TRAINED = {gpt2: (-1, 0), llama3: (0, 1), article: (1, 2), fused: (-1, 1), qwen: None, lowercase: (0, 1)}


def all_pairs(pre_tokenizer):
    """Every two bytes of a word merge, so that ids show where words begin and end."""
    alphabet = sorted(ALPHABET)
    vocab = {token: i for i, token in enumerate([*alphabet, *(a + b for a in alphabet for b in alphabet)])}
    model = models.BPE(vocab=vocab, merges=[(a, b) for a in alphabet for b in alphabet])
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def check_tokenizer(echelon, name, tokenizer, texts, folder, ends=None):
    path = folder / "tokenizer.json"
    tokenizer.save(str(path), pretty=len(texts) % 2 == 0)
    valid = [text if isinstance(text, str) else text.decode(errors="replace") for text in texts]
    ids = [encoding.ids for encoding in tokenizer.encode_batch_fast(valid, add_special_tokens=False)]
    expected = list(zip(ids, tokenizer.decode_batch(ids), strict=True))
    header, found = echelon.encode(path, texts)
    compare(name, texts, expected, found)
    if ends:
        assert header[:2] == ends, (name, header)
    assert header[2] == tokenizer.get_vocab_size(), (name, header)


def check_tokenizers(echelon, texts, sources, folder):
    given = texts.make(10000) + texts.make_invalid(1000)
    for make, ends in TRAINED.items():
        tokenizer = make(sources)
        check_tokenizer(echelon, make.__name__, tokenizer, given, folder, ends)
        # Merges used to be written as one string.
        if make is gpt2:
            old = json.loads((folder / "tokenizer.json").read_text())
            old["model"]["merges"] = [" ".join(merge) for merge in old["model"]["merges"]]
            (folder / "old.json").write_text(json.dumps(old))
            sample = texts.make(500)
            assert echelon.encode(folder / "old.json", sample) == echelon.encode(folder / "tokenizer.json", sample)
    for make, ends in OF_CHARACTERS.items():
        check_tokenizer(echelon, make.__name__, make(sources), given, folder, ends)
    places = "a?b ? ?1\n?'"
    some = unlike()
    swept = {name: sweep(some, places) for name in ("gpt2", "llama3", "deepseek")}
    swept["llama3"] += sweep(ALL, "a? ?1")
    for name, steps in byte_level_steps().items():
        check_tokenizer(echelon, f"words of {name}", all_pairs(steps), given[:1000] + swept.get(name, []), folder)
    for normalizer in (normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase):
        tokenizer = all_pairs(byte_level_steps()["gpt2"])
        tokenizer.normalizer = normalizer()
        characters = ALL if normalizer in (normalizers.NFKC, normalizers.Lowercase) else some
        check_tokenizer(echelon, normalizer.__name__, tokenizer, given[:1000] + sweep(characters, "a? "), folder)


def train_sentencepiece(path, sources, **options):
    """Writes a model; its processor."""
    lines = [line[:500] for text in sources for line in text.splitlines() if line.strip()][:8000]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, minloglevel=2,
                                             vocab_size=1000, character_coverage=0.9995, **options)
    path.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def check_sentencepiece(echelon, texts, sources, folder):
    kinds = {
        "T5": dict(model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, max_sentence_length=4192,
                   user_defined_symbols=[f"<extra_id_{i}>" for i in range(10)]),
        "unigram bytes": dict(model_type="unigram", byte_fallback=True, remove_extra_whitespaces=False),
        "unigram of spaces": dict(model_type="unigram", byte_fallback=True, normalization_rule_name="identity",
                                  remove_extra_whitespaces=False, allow_whitespace_only_pieces=True),
        "Llama 2": dict(model_type="bpe", byte_fallback=True, split_digits=True, normalization_rule_name="identity",
                        remove_extra_whitespaces=False),
        "verbatim": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False,
                         remove_extra_whitespaces=False, allow_whitespace_only_pieces=True),
    }
    made = texts.make(10000)
    for name, options in kinds.items():
        given = made
        if name == "T5":  # the last text is so long that rounding decides between pieces
            given = made + sweep(ALL, "a? ?") + [" ".join(made)]
        path = folder / "tokenizer.model"
        oracle = train_sentencepiece(path, sources, **options)
        expected = [(ids, oracle.decode(ids)) for ids in oracle.encode(given)]
        header, found = echelon.encode(path, given)
        compare(f"sentencepiece {name}", given, expected, found)
        assert header == (oracle.bos_id(), oracle.eos_id(), len(oracle)), (name, header)
        check_as_json(echelon, name, path, oracle, given)


def is_long_cluster(cluster):
    """Letters with marks, and Korean by its parts: `tokenizers` looks up the whole where it has less than six bytes, then
    each character; sentencepiece the longest beginning."""
    if len(cluster) != 2 or cluster == "\r\n":
        return len(cluster) > 2
    return len(cluster.encode()) > 5 or cluster[0] == SIGN or unicodedata.normalize("NFKC", cluster[0]) != cluster[0]


def are_tied(oracle, ids, others):
    """Two ways to cut a text into pieces that have the same scores, in another order."""
    return ids != others and sorted(map(oracle.get_score, ids)) == sorted(map(oracle.get_score, others)) \
        and oracle.decode(ids) == oracle.decode(others)


def check_as_json(echelon, name, path, oracle, given):
    """The tokenizer.json that exports have for a sentencepiece model."""
    text = subprocess.run([echelon.program, "--json", path], capture_output=True, check=True).stdout.decode()
    tokenizer = Tokenizer.from_str(text)
    # There the names of special symbols, and of a unigram model's bytes, are these.
    apart = [oracle.id_to_piece(i) for i in range(len(oracle)) if oracle.is_control(i) or oracle.is_unknown(i) or oracle.is_byte(i)]
    # Of a text of which the normalizer leaves nothing, sentencepiece has the space in front.
    nothing = [oracle.piece_to_id(SIGN)]
    plain = [text for text in given if len(text) < 100_000 and not any(part in text for part in apart) and oracle.encode(text) != nothing
             and not any(map(is_long_cluster, regex.findall(r"\X", text)))]
    assert len(plain) > len(given) / 2, (name, len(plain), len(given))
    expected = [(ids, None) for ids in oracle.encode(plain)]
    found = [(encoding.ids, None) for encoding in tokenizer.encode_batch(plain, add_special_tokens=False)]
    ties = [at for at, (one, other) in enumerate(zip(expected, found)) if are_tied(oracle, one[0], other[0])]
    assert len(ties) < len(plain) / 10, (name, len(ties))  # a run of spaces is cut into the same pieces in two orders
    for at in ties:
        found[at] = expected[at]
    compare(f"tokenizer.json of sentencepiece {name}", plain, expected, found)
    front = [oracle.bos_id()] if oracle.bos_id() >= 0 else []
    assert tokenizer.encode("a").ids == front + oracle.encode("a"), name
    for text, (ids, _) in zip(plain[:2000], expected):
        assert oracle.unk_id() in ids or tokenizer.decode(ids) == oracle.decode(ids), (name, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenize", required=True, help="the program tokenize")
    arguments = parser.parse_args()
    sources = corpus()
    texts = Texts(sources)
    echelon = Echelon(arguments.tokenize)
    with tempfile.TemporaryDirectory() as folder:
        check_tokenizers(echelon, texts, sources, Path(folder))
        check_sentencepiece(echelon, texts, sources, Path(folder))


if __name__ == "__main__":
    main()
