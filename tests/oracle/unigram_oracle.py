"""Ids and decoded texts of unigram tokenizer.json files equal to those of the package `tokenizers`: trained by it, and made
of sentencepiece models as transformers' converters do for T5, XLM-R and ALBERT."""
import argparse
import base64
import itertools
import json
import math
import random
import subprocess
import tempfile
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import tokenizer_oracle
from tokenizer_oracle import SIGN

SPACES = Regex(" {2,}")


def of_words(tokenizer, prepend="always", after_spaces=False):
    metaspace = pre_tokenizers.Metaspace(prepend_scheme=prepend)
    split = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    tokenizer.pre_tokenizer = split if after_spaces else metaspace
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=prepend)


def trained(sources):
    """As SentencePieceUnigramTokenizer of `tokenizers`; bytes to fall back to, but not for all."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(SPACES, " ")])
    of_words(tokenizer)
    trainer = trainers.UnigramTrainer(vocab_size=1500, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>",
                                      show_progress=False)
    tokenizer.train_from_iterator([text[:3000] for text in sources], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocab = model["vocab"] + [[f"<0x{byte:02X}>", -20.0] for byte in (*range(0x20), *range(0x80, 0xf0))]
    tokenizer.model = models.Unigram([tuple(piece) for piece in vocab], 0, True)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return tokenizer


def whole(sources):
    """No words: a whole text is cut at once, so that rounding decides between pieces."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Strip(left=True, right=True), normalizers.Replace(" ", SIGN)])
    trainer = trainers.UnigramTrainer(vocab_size=800, special_tokens=["</s>", "<unk>"], unk_token="<unk>",
                                      show_progress=False)
    tokenizer.train_from_iterator([line for text in sources for line in text[:2000].splitlines()], trainer)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SIGN, " "), decoders.Fuse()])
    return tokenizer


def tied(chance):
    """Many ways to cut a text that score nearly the same: the rounding of the scores in a file decides."""
    pieces = ["".join(letters) for length in range(1, 5) for letters in itertools.product("abc", repeat=length)]
    scores = [(piece, len(piece) * math.log(chance.randint(1, 12) / 1000)) for piece in pieces]
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), *scores], 0))
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


class Model:
    """A sentencepiece model, and its table of the normalizer."""

    def __init__(self, program, sources, folder, **options):
        path = folder / "tokenizer.model"
        processor = tokenizer_oracle.train_sentencepiece(path, sources, **options)
        self.pieces = [(processor.id_to_piece(i), processor.get_score(i)) for i in range(len(processor))]
        exported = json.loads(subprocess.run([program, "--json", path], capture_output=True, check=True).stdout)
        table = exported["normalizer"]["normalizers"][0]["precompiled_charsmap"]
        self.precompiled = normalizers.Precompiled(base64.b64decode(table))


def t5(model):
    extra = [f"<extra_id_{i}>" for i in range(9, -1, -1)]
    tokenizer = Tokenizer(models.Unigram(model.pieces + [(token, 0.0) for token in extra], 2))
    tokenizer.normalizer = normalizers.Sequence(
        [model.precompiled, normalizers.Strip(left=False, right=True), normalizers.Replace(SPACES, SIGN)])
    of_words(tokenizer, "first")
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>", *extra])
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def xlm_roberta(model):
    pieces = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")] + model.pieces[3:] + [("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, 3))
    tokenizer.normalizer = model.precompiled
    of_words(tokenizer, after_spaces=True)
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def albert(model):
    tokenizer = Tokenizer(models.Unigram(model.pieces, 2))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
         normalizers.Lowercase(), model.precompiled, normalizers.Replace(SPACES, " ")])
    of_words(tokenizer, after_spaces=True)
    tokenizer.add_special_tokens(["[MASK", "</s>", AddedToken("<s>", normalized=True)])
    tokenizer.add_tokens([AddedToken("SELF", normalized=True), AddedToken("word", single_word=True)])
    return tokenizer


def check(echelon, name, made, texts, folder, ends):
    path = folder / "tokenizer.json"
    made.save(str(path))
    read = Tokenizer.from_file(str(path))  # the scores of a file are rounded anew
    tokenizer_oracle.check_tokenizer(echelon, name, read, texts, folder, ends)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenize", required=True, help="the program tokenize")
    arguments = parser.parse_args()
    sources = tokenizer_oracle.corpus()
    texts = tokenizer_oracle.Texts(sources)
    echelon = tokenizer_oracle.Echelon(arguments.tokenize)
    made = texts.make(4000) + texts.make_invalid(500)
    made += ["".join(made[at:at + 100]) for at in range(0, 1000, 100)]
    every = tokenizer_oracle.sweep(tokenizer_oracle.ALL, "a? ?\u0301?\r\n")
    chance = random.Random(5)
    letters = ["".join(chance.choices("abc", k=chance.choice([20, 200, 2000]))) for _ in range(1000)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check(echelon, "unigram", trained(sources), made + every, folder, (1, 2))
        check(echelon, "unigram of whole texts", whole(sources), made, folder, (-1, 0))
        check(echelon, "unigram with ties", tied(chance), letters, folder, None)
        plain = Model(arguments.tokenize, sources, folder, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
        check(echelon, "T5", t5(plain), made + every, folder, (-1, 1))
        check(echelon, "ALBERT", albert(plain), made + every, folder, None)
        folded = Model(arguments.tokenize, sources, folder, normalization_rule_name="nmt_nfkc_cf")
        check(echelon, "XLM-R", xlm_roberta(folded), made + every, folder, (0, 2))


if __name__ == "__main__":
    main()
