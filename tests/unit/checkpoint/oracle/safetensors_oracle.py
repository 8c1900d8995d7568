"""The safetensors library beside our parser, on good files and thousands of mutated ones.

Both must give the same tensors, or both refuse; ours may refuse more, but only for a reason listed here, and each
of these reasons must have come up. usage: safetensors_oracle.py SAFETENSORS_PROBE"""
import collections
import json
import random
import re
import struct
import subprocess
import sys

import safetensors
import safetensors.numpy
import numpy

CASES = 8000
# Refused by us alone (docs/echelon_ckpt.md, "What import refuses").
STRICTER = {
    "does not begin with {": r"does not begin with '\{'",
    "a key twice": r"(tensor|key) '.*' appears twice( in one object)?$",
    "a name without a place in a checkpoint": r"tensor name '.*' (is empty|has .*)$",
    "a tensor as a list": r"must be an object, it is \[.*$",
    "a type as an object": r"'dtype' must be text, it is \{.*$",
    "a large shape": r"(8 dimensions, or one above 2\^40|is out of bounds \(1 PiB\))$",
    "deep nesting": r"nested deeper than 32 levels$",
}
SIZES = {"F32": 4, "BF16": 2, "F16": 2, "F64": 8, "I32": 4, "I64": 8, "U8": 1}
TOKENS = ["{", "}", "[", "]", ",", ":", '"', "0", "1", "2", "16", "-0", "-1", "1.0", "1e0", "00", "4294967296",
          "1099511627776", "1099511627777", "18446744073709551615", "18446744073709551616", "1e400", "null", "true", "{}", "[]", '""', '"x"',
          '"U8"', '"F32"', '"BOOL"', '"F4"', '"C64"', '"shape"', '"dtype"', '"data_offsets"', '"__metadata__"', '{"U8":null}',
          '["U8",[1],[0,1]]', '"a":', '"format":"np"', "\\u0061", "\\ud800", "\\n", "\x00", "\x01", "\x7f", "\t", " ", "\u00e9", "[" * 40 + "]" * 40,
          '"x":' + "[" * 40 + "]" * 40 + ",", '"x":1,', '"x":[{"y":[1.5,"z"]}],', "NaN", "\ufeff"]
SPLIT = re.compile(r'("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\s+)')


def seed_headers():
    yield {}, 0
    yield {"__metadata__": {"format": "pt", "x": "y"}}, 0
    for dtype, size in SIZES.items():
        yield {"a": {"dtype": dtype, "shape": [2, 3], "data_offsets": [0, 6 * size]}}, 6 * size
    yield {"a": {"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]}}, 3
    yield {"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
           "b.c/d-e_F": {"dtype": "U8", "shape": [0, 7], "data_offsets": [4, 4]},
           "z": {"dtype": "I64", "shape": [1, 1, 2], "data_offsets": [4, 20]}}, 20
    yield {"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]},
           "b": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1], "more": [1, {"x": None}]},
           "__metadata__": {"format": "pt"}}, 2


def pack(header, data, length=None):
    return struct.pack("<Q", len(header) if length is None else length) + header + b"x" * data


def numpy_files():
    arrays = {"w": numpy.arange(12, dtype=numpy.float32).reshape(3, 4), "n": numpy.zeros((), numpy.int64),
              "e": numpy.zeros((0, 2), numpy.float16)}
    yield safetensors.numpy.save(arrays)
    yield safetensors.numpy.save(arrays, metadata={"format": "pt"})


def mutate(random_, text):
    parts = [part for part in SPLIT.split(text) if part]
    for _ in range(random_.choice([1, 1, 1, 2, 3])):
        at = random_.randrange(len(parts) + 1)
        kind = random_.randrange(6)
        if kind == 0 and parts:
            del parts[min(at, len(parts) - 1)]
        elif kind == 1:
            parts.insert(at, random_.choice(TOKENS))
        elif kind == 2 and parts:
            parts[min(at, len(parts) - 1)] = random_.choice(TOKENS)
        elif kind == 3 and parts:  # one value in place of another of its kind
            numbers = [i for i, part in enumerate(parts) if part[0].isdigit() or part[0] == '"']
            if numbers:
                parts[random_.choice(numbers)] = random_.choice([t for t in TOKENS if t[:1].isdigit() or t[:1] == '"'])
        elif kind == 4 and parts:
            begin = random_.randrange(len(parts))
            parts[at:at] = parts[begin:begin + random_.randrange(1, 12)]
        elif parts:
            i = min(at, len(parts) - 1)
            raw = bytearray(parts[i].encode("utf-8", "surrogatepass"))
            raw[random_.randrange(len(raw))] ^= 1 << random_.randrange(8)
            parts[i] = raw.decode("latin-1")
    return "".join(parts)


def spell(random_, pairs):
    """An object with its members in this order, spaced at random."""
    gap = lambda: random_.choice(["", "", "", " ", "\n\t"])
    return "{" + ",".join(f"{gap()}{json.dumps(key)}{gap()}:{gap()}{value}{gap()}" for key, value in pairs) + "}"


def random_file(random_):
    """A good file, or one with a single fault that is not one of JSON."""
    names = random_.sample(["a", "b.weight", "c/d", "E_f-g", "0", "x" * 255, "h" * 256, "i j", ""], random_.randrange(5))
    tensors, at = [], 0
    for name in names:
        dtype = random_.choice([*SIZES] * 4 + ["BOOL", "F8_E5M2", "U16", "C64"])
        shape = [random_.choice([1, 2, 3, 3, 4, 0]) for _ in range(random_.choice([0, 1, 2, 2, 3, 8]))]
        size = SIZES.get(dtype, {"U16": 2}.get(dtype, 1))
        for dim in shape:
            size *= dim
        tensors.append([name, dtype, shape, [at, at + size]])
        at += size
    if tensors and random_.random() < 0.5:
        fault = random_.choice(tensors)
        kind = random_.randrange(6)
        if kind == 0:
            fault[3][random_.randrange(2)] += random_.choice([-1, 1, 4, 2**32, 2**64 - 1])
        elif kind == 1:
            fault[2].insert(0, random_.choice([0, 1, 2, 2**40, 2**40 + 1, 2**63, 2**64]))
        elif kind == 2:
            fault[1] = random_.choice([*SIZES])
        elif kind == 3:
            fault[3] = random_.choice(tensors)[3]
        elif kind == 4:
            fault[0] = random_.choice(tensors)[0]
        else:
            at += random_.choice([-1, 1, 8])
    random_.shuffle(tensors)
    members = []
    for name, dtype, shape, offsets in tensors:
        fields = [("dtype", json.dumps(dtype)), ("shape", json.dumps(shape)), ("data_offsets", json.dumps(offsets))]
        if random_.random() < 0.2:
            fields.append(("note", random_.choice(["1.5", "null", '[{"x":[true]}]', '"text"'])))
        random_.shuffle(fields)
        members.append((name, spell(random_, fields)))
    if random_.random() < 0.3:
        members.insert(random_.randrange(len(members) + 1), ("__metadata__", '{"format":"pt"}'))
    return pack(spell(random_, members).encode() + b" " * random_.randrange(9), max(at, 0))


def cases():
    random_ = random.Random(20)
    seeds = list(seed_headers())
    yield from numpy_files()
    for header, data in seeds:
        text = json.dumps(header)
        for spelled in (text, " " + text, text + "  \n\t", text.replace('"a"', '"\\u0061"'), json.dumps(header, indent=1)):
            yield pack(spelled.encode(), data)
        yield pack(text.encode(), data + 1)
        if data:
            yield pack(text.encode(), data - 1)
        for length in (0, 1, len(text) - 1, len(text) + 1, len(text) + data, len(text) + data + 1, 100_000_001, 2**63, 2**64 - 1):
            yield pack(text.encode(), data, length)
    # Accepted by the library; each shows one of our own rules.
    for text, data in (('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1),
                       ('{"__metadata__":{"x":"1","x":"2"}}', 0), ('{"a":["U8",[1],[0,1]]}', 1),
                       ('{"a":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}}', 1),
                       ('{"a":{"dtype":"U8","shape":[0,1099511627777],"data_offsets":[0,0]}}', 0),
                       ('{"a":{"x":%s,"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' % ("[" * 40 + "]" * 40), 0)):
        yield pack(text.encode(), data)
    while True:
        yield random_file(random_)
        header, data = random_.choice(seeds)
        text = mutate(random_, json.dumps(header, separators=random_.choice([(",", ":"), (", ", ": ")])))
        raw = text.encode("latin-1" if random_.random() < 0.1 and all(ord(c) < 256 for c in text) else "utf-8", "surrogatepass")
        if random_.random() < 0.3:
            data = random_.choice([0, 1, 2, 4, 8, 16, data])
        yield pack(raw, data)


def reference(file):
    try:
        tensors = safetensors.deserialize(file)
    except Exception as error:  # the library's own class, and whatever else it raises
        return None, str(error)
    return {name: (info["dtype"], list(info["shape"]), bytes(info["data"])) for name, info in tensors}, ""


def same(file, ours, theirs):
    if sorted(tensor[0] for tensor in ours) != sorted(theirs):
        return False
    return all(theirs[name] == (dtype, shape, file[offset:offset + size]) for name, dtype, shape, offset, size in ours)


def main():
    files = [file for file, _ in zip(cases(), range(CASES))]
    frames = b"".join(struct.pack("<Q", len(file)) + file for file in files)
    lines = subprocess.run(sys.argv[1:2], input=frames, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    if len(lines) != len(files):
        sys.exit(f"safetensors_oracle.py: {len(lines)} answers to {len(files)} files")
    counts = collections.Counter()
    for file, line in zip(files, lines):
        ours = json.loads(line)
        theirs, reason = reference(file)
        if "tensors" in ours:
            if theirs is None:
                sys.exit(f"safetensors_oracle.py: only we accept {file!r}; the library says: {reason}")
            if not same(file, ours["tensors"], theirs):
                sys.exit(f"safetensors_oracle.py: {file!r}: we read {ours['tensors']}, the library {theirs}")
            counts["both accept"] += 1
        elif theirs is None:
            counts["both refuse"] += 1
        else:
            rule = next((rule for rule, text in STRICTER.items() if re.search(text, ours["problem"])), None)
            if rule is None:
                sys.exit(f"safetensors_oracle.py: only the library accepts {file!r}; we say: {ours['problem']}")
            counts[f"stricter: {rule}"] += 1
    for what, count in counts.most_common():
        print(f"{count:6} {what}")
    missing = [rule for rule in STRICTER if not counts[f"stricter: {rule}"]]
    if missing or counts["both accept"] < 500:
        sys.exit(f"safetensors_oracle.py: too little was tried: {missing} never came up, {counts['both accept']} accepted")


if __name__ == "__main__":
    main()
