"""Reads a folder made by `echelon prepare --format code` with numpy and sentencepiece's own Python package, by the
format description of docs/data.md alone, and compares it with the source files.

    python3 check_token_file.py FOLDER SOURCE...    prints "N documents agree", or exits 1 with what does not"""
import pathlib
import sys

import numpy
import sentencepiece

from token_file import BLOCK, HEADER, MAGIC, crc32c

def documents(path, model, pairs=False):
    """The documents' ids, after every rule of the format was checked. `pairs`: they alternate source and target."""
    data = path.read_bytes()
    (magic, version, header_bytes, width, flags, tokens, count, vocab, largest, digest, tokens_at, ends_at, crcs_at,
     size, block, crcs_crc, header_crc) = HEADER.unpack_from(data)
    assert magic == MAGIC and (version, header_bytes, block) == (2 if pairs else 1, 128, BLOCK), "magic, version"
    assert header_crc == crc32c(data[:124]), "header checksum"
    assert size == len(data) and tokens_at == 128 and flags == (7 if pairs else 3), "size, offset, flags"
    assert digest == crc32c(model) << 32 | len(model), "tokenizer digest"
    assert crcs_crc == crc32c(data[crcs_at:]), "checksum of the checksums"
    crcs = numpy.frombuffer(data, "<u4", offset=crcs_at)
    assert list(crcs) == [crc32c(data[at:min(at + BLOCK, crcs_at)]) for at in range(128, crcs_at, BLOCK)], "blocks"
    ids = numpy.frombuffer(data, {2: "<u2", 4: "<u4"}[width], tokens, tokens_at)
    ends = numpy.frombuffer(data, "<u8", count, ends_at)
    assert ids.max() == largest < vocab and ends[-1] == tokens, "largest id, last border"
    return [part.tolist() for part in numpy.split(ids, ends[:-1].astype(int))]


def main():
    folder = pathlib.Path(sys.argv[1])
    model = (folder / "tokenizer.model").read_bytes()
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=model)
    texts = [pathlib.Path(path).read_bytes().decode() for path in sys.argv[2:]]
    expected = sorted([tokenizer.bos_id(), *tokenizer.encode(text), tokenizer.eos_id()] for text in texts)
    found = documents(folder / "train.tok", model) + documents(folder / "valid.tok", model)
    assert sorted(found) == expected, "the ids are not those of the sources"
    assert sorted(tokenizer.decode(ids) for ids in found) == sorted(texts), "the texts are not those of the sources"
    print(f"{len(found)} documents agree")


if __name__ == "__main__":
    try:
        main()
    except AssertionError as fault:
        raise SystemExit(f"check_token_file.py: {fault}")
