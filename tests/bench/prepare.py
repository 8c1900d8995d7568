"""Times `echelon prepare` and its peers in turn on the same JSONL, tokenizer and cores, and prints tokens a second and
their ratios. The peers are given less to do: their texts lie in memory as Python strings and their ids are counted,
while prepare also parses JSON, checks UTF-8, writes, checksums and flushes the token file.

The corpus: the Python sources of the installed torch package, repeated and cut into documents of some 4 KB with a few
characters changed in each, so that no document is another one."""
import argparse
import io
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "true"

import sentencepiece
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def documents(megabytes):
    chance = random.Random(3)
    files = sorted(Path(torch.__file__).parent.rglob("*.py"))
    texts = [text for text in (path.read_text(errors="replace") for path in files) if len(text) > 1000]
    made, size = [], 0
    while size < megabytes * 1e6:
        text = chance.choice(texts)
        at = chance.randrange(max(1, len(text) - 4000))
        part = list(text[at:at + 4000])
        for _ in range(5):
            part[chance.randrange(len(part))] = chance.choice("abcxyz01 \n")
        made.append("".join(part))
        size += len(made[-1].encode())
    return made


def train_json(texts, split, vocabulary):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts[:2000], trainer)
    return tokenizer


def train_model(texts, **options):
    lines = [line[:1000] for text in texts[:800] for line in text.splitlines() if line.strip()]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, minloglevel=2, **options)
    return model.getvalue()


class Json:
    """tokenizers' encode_batch."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.name = "tokenizer.json"

    def save(self, folder):
        self.tokenizer.save(str(folder / self.name))

    def count(self, texts, threads):
        fresh = Tokenizer.from_str(self.tokenizer.to_str())  # no cache of an earlier round
        return sum(len(encoding.ids) for encoding in fresh.encode_batch(texts, add_special_tokens=False))


class Sentencepiece:
    """sentencepiece's encode of a list."""

    def __init__(self, model):
        self.model = model
        self.name = "tokenizer.model"

    def save(self, folder):
        (folder / self.name).write_bytes(self.model)

    def count(self, texts, threads):
        processor = sentencepiece.SentencePieceProcessor(model_proto=self.model)
        return sum(len(ids) for ids in processor.encode(texts, num_threads=threads))


def kinds(texts):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    llama3 = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), byte_level])
    return {
        "tokenizer.json, GPT-2 style": Json(train_json(texts, pre_tokenizers.ByteLevel(add_prefix_space=False), 16000)),
        "tokenizer.json, Llama 3 style": Json(train_json(texts, llama3, 16000)),
        "tokenizer.json, no splitting": Json(train_json(texts, byte_level, 16000)),
        "sentencepiece, BPE as --train-tokenizer makes it": Sentencepiece(train_model(
            texts, model_type="bpe", vocab_size=8000, byte_fallback=True, split_digits=True,
            normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True, user_defined_symbols=["\n", "\t"])),
        "sentencepiece, unigram as T5's": Sentencepiece(train_model(
            texts, model_type="unigram", vocab_size=8000, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)),
    }


def prepare(echelon, folder, name, threads):
    shutil.rmtree(folder / "out", ignore_errors=True)
    command = [echelon, "prepare", folder / "corpus.jsonl", "-o", folder / "out", "--format", "jsonl", "--json",
               "--tokenizer", folder / name, "--validation-fraction", "0", "--threads", str(threads)]
    begin = time.perf_counter()
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    return result["train"]["tokens"], time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--echelon", default="build/release/bin/echelon")
    arguments = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(arguments.threads)
    texts = documents(arguments.megabytes)
    size = sum(len(text.encode()) for text in texts) / 1e6
    print(f"{len(texts)} documents, {size:.0f} MB, {arguments.threads} threads")
    print("| tokenizer | echelon prepare, tokens/s | MB/s | its package, tokens/s | prepare / package |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with open(folder / "corpus.jsonl", "w") as lines:
            lines.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        for title, peer in kinds(texts).items():
            peer.save(folder)
            ours, theirs, ratios = [], [], []
            for _ in range(arguments.repeat):
                tokens, seconds = prepare(arguments.echelon, folder, peer.name, arguments.threads)
                begin = time.perf_counter()
                counted = peer.count(texts, arguments.threads)
                other = time.perf_counter() - begin
                extra = tokens - counted  # BOS and EOS of every document
                assert extra in (len(texts), 2 * len(texts)), (tokens, counted)
                ours.append(counted / seconds)
                theirs.append(counted / other)
                ratios.append(ours[-1] / theirs[-1])
            rate = statistics.median(ours)
            print(f"| {title} | {rate / 1e6:.2f} M | {size * rate / counted:.0f} | {statistics.median(theirs) / 1e6:.2f} M "
                  f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |", flush=True)


if __name__ == "__main__":
    main()
