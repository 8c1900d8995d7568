"""Text to token files, and token files to batches, beside the packages that others use for it."""
import io
import json
import os
import random
import shutil
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "true"

import numpy
import sentencepiece
import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from machine import ROOT

sys.path.append(str(ROOT / "tests" / "support"))
import byte_level


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


def train_json(texts, words):
    return byte_level.train(words, texts[:2000], 16000)


def train_pieces(texts, vocabulary):
    """As T5's, without the table of its normalizer."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=vocabulary, special_tokens=["</s>", "<unk>"], unk_token="<unk>",
                                      show_progress=False)
    tokenizer.train_from_iterator(texts[:800], trainer)
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

    def by_datasets(self, bench, folder, threads):
        """Tokens and seconds of datasets.map."""
        cache = folder / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        peer = ROOT / "tests/bench/peers/datasets_map.py"
        return json.loads(bench.run([bench.options.datasets, peer, folder / "corpus.jsonl", folder / self.name, threads, cache]))

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
    """{name: (title, what makes the peer)}; each is trained when it is its turn."""
    return {
        "gpt2": ("tokenizer.json, GPT-2 style", lambda: Json(train_json(texts, byte_level.GPT2))),
        "llama3": ("tokenizer.json, Llama 3 style",
                   lambda: Json(train_json(texts, byte_level.split_by(byte_level.LLAMA3)))),
        "unigram": ("tokenizer.json, unigram", lambda: Json(train_pieces(texts, 8000))),
        "unsplit": ("tokenizer.json, no splitting", lambda: Json(train_json(texts, byte_level.UNSPLIT))),
        "sentencepiece_bpe": ("sentencepiece, BPE as `--train-tokenizer` makes it", lambda: Sentencepiece(train_model(
            texts, model_type="bpe", vocab_size=8000, byte_fallback=True, split_digits=True,
            normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True, user_defined_symbols=["\n", "\t"]))),
        "sentencepiece_unigram": ("sentencepiece, unigram as T5's", lambda: Sentencepiece(train_model(
            texts, model_type="unigram", vocab_size=8000, pad_id=0, eos_id=1, unk_id=2, bos_id=-1))),
    }


def prepare(bench):
    """Tokens per second of `echelon prepare` on two threads, beside the packages tokenizers and sentencepiece"""
    # datasets.map (with --datasets) reads the same JSON lines, not counting the start of Python, and writes an Arrow file.
    # The packages are given less to do: their texts lie in memory as Python strings and their ids are counted, while prepare
    # also parses JSON, checks UTF-8, writes, checksums and flushes the token file.
    bench.metric("tokens_per_s", "tokens/s", "tokens/s", "higher")
    bench.lay_out("columns")
    threads, megabytes = 2, bench.pick(12, 6, 1)
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    texts = documents(megabytes)
    bench.fact("documents", len(texts), "count", "in the corpus, no two of them equal")
    bench.fact("corpus_bytes", sum(len(text.encode()) for text in texts), "bytes", "of text")
    known = kinds(texts)
    with bench.scratch() as folder:
        with open(folder / "corpus.jsonl", "w") as lines:
            lines.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        for name in bench.wanted(*known):
            title, make = known[name]
            peer = make()
            peer.save(folder)
            sides = {"echelon": "echelon prepare", "package": "its package"}
            if bench.options.datasets and isinstance(peer, Json):
                sides["datasets"] = "datasets.map"
            case = bench.case(name, title, sides)
            for _ in bench.rounds(full=3, quick=2):
                begin = time.perf_counter()
                counted = peer.count(texts, threads)
                other = time.perf_counter() - begin
                case.fields["commands"]["package"] = [f"{type(peer).__doc__[:-1]} on {threads} threads, in one Python process"]
                case.measure("echelon", prepared, bench, folder, peer.name, threads, counted, len(texts))
                case.add("package", tokens_per_s=counted / other)
                if "datasets" in sides:
                    case.measure("datasets", mapped, bench, folder, peer, threads, counted)


def mapped(bench, folder, peer, threads, counted):
    done = peer.by_datasets(bench, folder, threads)
    assert done["tokens"] == counted, (done, counted)
    return {"tokens_per_s": counted / done["seconds"]}


def prepared(bench, folder, name, threads, counted, documents_in_all):
    shutil.rmtree(folder / "out", ignore_errors=True)
    command = [bench.echelon, "prepare", folder / "corpus.jsonl", "-o", folder / "out", "--format", "jsonl", "--json",
               "--tokenizer", folder / name, "--validation-fraction", "0", "--threads", threads]
    begin = time.perf_counter()
    tokens = json.loads(bench.run(command))["train"]["tokens"]
    took = time.perf_counter() - begin
    extra = tokens - counted  # BOS and EOS of every document
    assert extra in (documents_in_all, 2 * documents_in_all), (tokens, counted)
    return {"tokens_per_s": counted / took}


class Windows(torch.utils.data.Dataset):
    def __init__(self, ids, length):
        self.ids, self.length = ids, length

    def __len__(self):
        return (len(self.ids) - 1) // self.length

    def __getitem__(self, index):
        begin = index * self.length
        window = torch.from_numpy(self.ids[begin:begin + self.length + 1].astype(numpy.int64))
        return window[:-1], window[1:]


class Documents(torch.utils.data.Dataset):
    def __init__(self, ids, ends, length):
        self.ids, self.ends, self.length = ids, ends, length

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, index):
        begin = int(self.ends[index - 1]) if index else 0
        end = min(int(self.ends[index]), begin + self.length + 1)
        window = torch.from_numpy(self.ids[begin:end].astype(numpy.int64))
        return window[:-1], window[1:]


def padded(samples):
    inputs, targets = zip(*samples)
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(inputs, batch_first=True), pad(targets, batch_first=True, padding_value=-100)


def data_loader(path, packing, length, rows, batches):
    header = numpy.fromfile(path, "<u8", 16)
    ids = numpy.memmap(path, "<u2", "r", 128, (int(header[3]),))
    ends = numpy.memmap(path, "<u8", "r", int(header[9]), (int(header[4]),))
    data = Documents(ids, ends, length) if packing == "pad" else Windows(ids, length)
    order = torch.utils.data.RandomSampler(data, generator=torch.Generator().manual_seed(3))
    loader = iter(torch.utils.data.DataLoader(data, batch_size=rows, sampler=order,
                                              collate_fn=padded if packing == "pad" else None))
    count = 0
    begin = time.perf_counter()
    for _ in range(batches):
        inputs, targets = next(loader)
        count += int((targets >= 0).sum()) if packing == "pad" else inputs.numel()
    return count / (time.perf_counter() - begin)


def loader(bench):
    """Tokens per second that one core reads, shuffled, beside torch's DataLoader over numpy.memmap"""
    # Both on the calling thread alone. Echelon also verifies the checksum of each block and each id. The DataLoader does
    # not know the borders of documents; for `pad` it pads to the longest of the batch, and only real tokens count.
    bench.metric("tokens_per_s", "tokens/s of a core", "tokens/s", "higher")
    bench.lay_out("columns")
    torch.set_num_threads(1)
    program, rows = bench.program("loader_bench"), 4
    tokens, read = bench.pick((50_000_000, 30_000_000), (50_000_000, 30_000_000), (200_000, 100_000))
    cases = {f"{packing}_{length}": (packing, length) for packing in ("stream", "documents", "pad") for length in (512, 2048)}
    with bench.scratch() as folder:
        path = folder / "data.tok"
        bench.run([program, "write", path, tokens, 50000])
        for name in bench.wanted(*cases):
            packing, length = cases[name]
            batches = read // (rows * length)
            case = bench.case(name, f"`{packing}`, {length} tokens", {"echelon": "Echelon", "data_loader": "DataLoader"})
            case.fields["commands"]["data_loader"] = [f"torch.utils.data.DataLoader(batch_size={rows}), {batches} batches"]

            def ours():
                count, seconds = bench.run([program, "read", path, packing, length, rows, batches]).split()
                return {"tokens_per_s": int(count) / float(seconds)}

            for _ in bench.rounds(full=3, quick=2):
                case.measure("echelon", ours)
                case.measure("data_loader", lambda: {"tokens_per_s": data_loader(path, packing, length, rows, batches)})
