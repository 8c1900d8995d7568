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


def write(path, documents, vocabulary):
    """Lists of ids, which all end with EOS, as a file made without a tokenizer."""
    ids = numpy.concatenate(documents).astype("<u2")
    ends = numpy.cumsum([len(document) for document in documents], dtype="<u8").tobytes()
    body = ids.tobytes() + bytes(-ids.nbytes % 8) + ends
    checksums = b"".join(struct.pack("<I", crc32c(body[at:at + BLOCK])) for at in range(0, len(body), BLOCK))
    crcs_at = 128 + len(body)
    fields = (MAGIC, 1, 128, 2, 2, len(ids), len(documents), vocabulary, int(ids.max()), 0, 128, crcs_at - len(ends),
              crcs_at, crcs_at + len(checksums), BLOCK, crc32c(checksums))
    header = HEADER.pack(*fields, 0)[:124]
    path.write_bytes(header + struct.pack("<I", crc32c(header)) + body + checksums)
