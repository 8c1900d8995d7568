"""Token files by the format description of docs/data.md alone."""
import struct

import numpy

MAGIC = b"\x93ECHTO\r\n"
HEADER = struct.Struct("<8s4I9Q2I20xI")
BLOCK = 16384


def crc32c_table():
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


TABLE = list(crc32c_table())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def write(path, documents, vocabulary, trained=None):
    """Lists of ids, which all end with EOS, as a file made without a tokenizer. `trained`: of a file of chats, lists of
    whether each id is."""
    ids = numpy.concatenate(documents).astype("<u2")
    largest = int(ids.max())
    version, flags = (1, 2) if trained is None else (3, 8)
    if trained is not None:
        ids |= numpy.concatenate(trained).astype("<u2") << 15
    ends = numpy.cumsum([len(document) for document in documents], dtype="<u8").tobytes()
    body = ids.tobytes() + bytes(-ids.nbytes % 8) + ends
    checksums = b"".join(struct.pack("<I", crc32c(body[at:at + BLOCK])) for at in range(0, len(body), BLOCK))
    crcs_at = 128 + len(body)
    fields = (MAGIC, version, 128, 2, flags, len(ids), len(documents), vocabulary, largest, 0, 128, crcs_at - len(ends),
              crcs_at, crcs_at + len(checksums), BLOCK, crc32c(checksums))
    header = HEADER.pack(*fields, 0)[:124]
    path.write_bytes(header + struct.pack("<I", crc32c(header)) + body + checksums)


def read_chats(path):
    """(ids, whether each is trained) of the conversations of a file, whose checksums are not looked at."""
    data = path.read_bytes()
    fields = HEADER.unpack_from(data)
    width, tokens, count, ends_at = fields[3], fields[5], fields[6], fields[11]
    assert fields[1] == 3 and fields[4] == 8, "not a file of chats"
    raw = numpy.frombuffer(data, {2: "<u2", 4: "<u4"}[width], tokens, 128)
    ends = numpy.frombuffer(data, "<u8", count, ends_at).astype(int)
    bit = 8 * width - 1
    split = [numpy.split(part, ends[:-1]) for part in (raw & ((1 << bit) - 1), raw >> bit)]
    return [(ids.tolist(), trained.tolist()) for ids, trained in zip(*split)]
