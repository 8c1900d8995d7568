"""Parquet files, which pyarrow writes here in every encoding, compression and type that it has, prepared as JSONL with what
its to_pylist() gives: token files equal byte by byte. What cannot be read is refused, and memory does not grow with a file."""
import argparse
import datetime
import gzip
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
import chat_folder

SKIPPED = 77
ENCODINGS = ["RLE_DICTIONARY", "PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"]
COMPRESSIONS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]
LETTERS = ["plain words", "Grüße, 日本", "🙂", '"\\/', "\n\t\r", "\x00\x01\x1f\x7f", " \u2028", "</s>", ""]
# What a message has beside its text, told in full by the template.
TEMPLATE = ("{% for m in messages %}{{ m.role }} {% generation %}{% for key in m %}{{ key }} {{ m[key] | tojson }} {% endfor %}"
            "<|im_end|>{% endgeneration %}{% endfor %}{{ tools | tojson }}{{ tone | default('') }}")


class Checks:
    def __init__(self, echelon, folder):
        self.echelon, self.folder = echelon, folder
        self.random = random.Random(11)
        self.prepared = 0
        chat_folder.write(folder / "hf", TEMPLATE)

    # -- commands

    def run(self, *arguments, code=0, program=None, **environment):
        command = [program or self.echelon, "prepare", *arguments, "--tokenizer", self.folder / "hf", "--output",
                   self.folder / "out", "--force", "--json"]
        ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, **environment})
        assert ran.returncode == code, f"{command}: exit {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return json.loads(ran.stdout)

    def tokens(self, *arguments):
        """What prepare makes: both token files, and how many records are bad and empty."""
        self.prepared += 1
        made = self.run(*arguments, "--on-bad-record", "skip", "--validation-fraction", "0.2")
        files = [(self.folder / "out" / name).read_bytes() for name in ("train.tok", "valid.tok")]
        return files, made["bad_records"], made["empty_records"], made["train"]["documents"]

    def refuses(self, expected, *arguments, code=4, **more):
        message = self.run(*arguments, code=code, **more)["error"]["message"]
        assert re.search(expected, message) and "\n" not in message, f"expected: {expected}\nfound: {message}"

    # -- files

    def write(self, name, table, **options):
        path = self.folder / name
        parquet.write_table(table, path, **options)
        return path

    def jsonl(self, rows):
        path = self.folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def same(self, path, *options, jsonl_format=("--format", "jsonl")):
        """A Parquet file and the JSONL of what pyarrow reads from it. No conversation is bad."""
        rows = parquet.read_table(path).to_pylist()
        for row in rows:
            for name, value in row.items():
                row[name] = value.decode() if isinstance(value, bytes) else value
        expected = self.tokens(self.jsonl(rows), *jsonl_format, *options)
        found = self.tokens(path, *(["--format", "chat"] if "chat" in jsonl_format else []), *options)
        assert found == expected, f"{path.name} {options}: {found[1:]}, expected {expected[1:]}"
        assert expected[3] > 0 and (expected[1] == 0 or "chat" not in jsonl_format)

    def text(self):
        return " ".join(self.random.choices(LETTERS, k=self.random.randrange(1, 30))) if self.random.random() < 0.95 else ""

    def texts(self, count):
        return [None if self.random.random() < 0.1 else self.text() for _ in range(count)]

    # -- checks

    def every_encoding(self):
        rows = [{"text": text} for text in self.texts(150)]
        table = pa.Table.from_pylist(rows)
        expected = self.tokens(self.jsonl(rows), "--format", "jsonl")
        assert expected[1] > 0 and expected[2] > 0
        for encoding, compression, version in itertools.product(ENCODINGS, COMPRESSIONS, ("1.0", "2.0")):
            named = {"use_dictionary": True} if encoding == "RLE_DICTIONARY" else \
                {"use_dictionary": False, "column_encoding": encoding}
            path = self.write("encoded.parquet", table, compression=compression, data_page_version=version,
                              row_group_size=40, data_page_size=500, write_page_checksum=version == "2.0", **named)
            column = parquet.ParquetFile(path).metadata.row_group(0).column(0)
            assert encoding in column.encodings and column.compression == compression.upper().replace("NONE", "UNCOMPRESSED")
            assert self.tokens(path) == expected, (encoding, compression, version)

    def every_type_of_text(self):
        texts = pa.array(self.texts(100), pa.string())
        for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()):
            self.same(self.write("type.parquet", pa.table({"text": texts.cast(kind)}), row_group_size=33))
        for kind in (texts, texts.cast(pa.large_string())):
            self.same(self.write("type.parquet", pa.table({"text": kind.dictionary_encode()}), row_group_size=33))

    def pairs_and_named_columns(self):
        count = 90
        table = pa.table({"when": [datetime.datetime.now()] * count, "a b": self.texts(count), "summary": self.texts(count),
                          "decimal": pa.array(range(count), pa.decimal128(9, 2)), "numbers": list(range(count))})
        path = self.write("pairs.parquet", table, row_group_size=7)
        rows = table.select(["a b", "summary", "numbers"]).to_pylist()
        for options in (["--input", "a b", "--target", "summary", "--prefix", "sum: "], ["--field", "summary"],
                        ["--input", "summary", "--target", "summary"]):
            assert self.tokens(path, *options) == self.tokens(self.jsonl(rows), *options), options
        self.refuses(r"pairs.parquet: row 1: field 'numbers' is number, expected a string", path, "--field", "numbers")

    def chats(self):
        struct = pa.struct([("role", pa.string()), ("content", pa.large_string()), ("small", pa.int8()), ("large", pa.uint64()),
                            ("half", pa.float32()), ("share", pa.float64()), ("flag", pa.bool_()), ("none", pa.null()),
                            ("pairs", pa.map_(pa.string(), pa.int32())), ("deep", pa.list_(pa.list_(pa.int16()))),
                            ("object", pa.struct([("x", pa.string()), ("y", pa.list_(pa.float64()))]))])
        some = lambda value: None if self.random.random() < 0.3 else value()
        integer = lambda low, high: lambda: self.random.choice([low, high, 0, self.random.randint(low, high)])
        real = lambda: self.random.choice([0.0, -0.0, 1.0, 0.1, 1e300, 5e-324, 123456789.0, self.random.gauss(0, 1)])

        def message(role):
            return {"role": role, "content": self.text() + ".", "small": some(integer(-128, 127)),
                    "large": some(integer(0, 2**63 - 1)), "half": some(lambda: self.random.choice([0.5, 0.1, -3.0])),
                    "share": some(real), "flag": some(lambda: self.random.random() < 0.5), "none": None,
                    "pairs": some(lambda: [("a", 1), ("b", None)]), "deep": some(lambda: [[1, None], [], None]),
                    "object": some(lambda: {"x": some(self.text), "y": some(lambda: [real(), None])})}

        rows = [[message(role) for role in ("user", "assistant") * self.random.randrange(1, 4)] for _ in range(60)]
        tools = [some(lambda: [{"name": "f", "parameters": None}]) for _ in rows]
        values = [some(lambda: {"tone": self.random.choice(["calm", "loud"])}) for _ in rows]
        chat = ("--format", "chat")
        for kind, options in itertools.product(
                (pa.list_(struct), pa.large_list(struct)),
                ({}, {"use_dictionary": False, "column_encoding": {f"messages.list.element.{name}": "BYTE_STREAM_SPLIT" for name in
                                                                  ("half", "share", "large")}})):
            path = self.write("chats.parquet", pa.table({"messages": pa.array(rows, kind), "tools": tools,
                                                          "chat_template_kwargs": values}), row_group_size=13, **options)
            self.same(path, jsonl_format=chat)
        self.same(self.write("no_tools.parquet", pa.table({"messages": pa.array(rows, pa.list_(struct))})), jsonl_format=chat)
        prompts = pa.table({"q": [self.text() + "?" for _ in rows], "a": [self.text() + "." for _ in rows]})
        self.same(self.write("prompts.parquet", prompts), "--input", "q", "--target", "a", jsonl_format=chat)
        self.refuses(r"has no column 'messages'; it has: q, a; name one with --messages",
                     self.folder / "prompts.parquet", *chat)

    def folders_and_threads(self):
        (self.folder / "many").mkdir()
        rows = []
        for part in range(3):
            table = pa.table({"text": [self.text() + "." for _ in range(400)]})
            self.write(f"many/{part}.parquet", table, row_group_size=19)
            rows += table.to_pylist()
        expected = self.tokens(self.jsonl(rows))
        for threads in (1, 2, 5):
            assert self.tokens(self.folder / "many", "--threads", threads) == expected, threads
        made = json.loads((self.folder / "out" / "prepare.json").read_text())["made_from"]
        assert made["text_format"] == "parquet" and made["field"] == "text" and made["sources"]["files"] == 3
        subprocess.run([self.echelon, "prepare", self.folder / "many", "--train-tokenizer", "400", "--output",
                        self.folder / "trained"], check=True, capture_output=True)

    def killed_amid_a_file(self):
        (self.folder / "long").mkdir()
        self.write("long/0.parquet", pa.table({"text": [f"row {i}" for i in range(20000)]}), row_group_size=1900)
        expected = self.tokens(self.folder / "long")
        shutil.rmtree(self.folder / "out")
        options = ["--tokenizer", self.folder / "hf", "--on-bad-record", "skip", "--validation-fraction", "0.2"]
        for batches in (1, 2, 3, 0):
            ran = subprocess.run([self.echelon, "prepare", self.folder / "long", "--output", self.folder / "out", *options,
                                  "--save-every", "0"], capture_output=True, text=True,
                                 env={**os.environ, "ECHELON_KILL_POINT": f"prepare_batch::{batches}"})
            assert ran.returncode == (-9 if batches else 0) and ("resumed behind" in ran.stderr) == (batches in (3, 0)), ran
        assert self.tokens(self.folder / "long") == expected

    def what_cannot_be_read(self):
        texts = ["some words"] * 100
        whole = self.write("whole.parquet", pa.table({"text": texts, "when": [datetime.date.today()] * 100}), row_group_size=30,
                           compression="snappy", use_dictionary=False, write_page_checksum=True).read_bytes()
        damaged = self.folder / "damaged.parquet"
        for size in (0, 3, 11, 100, len(whole) // 2, len(whole) - 1):
            damaged.write_bytes(whole[:size])
            self.refuses(r"source '.*damaged.parquet' cannot be read as Parquet: .*; copy it again", damaged)
        column = parquet.ParquetFile(self.folder / "whole.parquet").metadata.row_group(2).column(0)
        begin, end = column.data_page_offset, column.data_page_offset + column.total_compressed_size
        damaged.write_bytes(whole[:end - 1] + bytes([whole[end - 1] ^ 1]) + whole[end:])  # readable, but for its checksum
        self.refuses(r"damaged.parquet' cannot be read as Parquet, row group 3 of 4: .*(CRC|crc)", damaged, "--on-bad-record",
                     "skip")
        damaged.write_bytes(whole[:begin] + bytes(60) + whole[begin + 60:])
        self.refuses(r"damaged.parquet' cannot be read as Parquet, row group 3 of 4: ", damaged)
        damaged.write_bytes(self.with_foreign_codec(whole))
        self.refuses(r"damaged.parquet' cannot be read as Parquet, row group 1 of 4: .*LZO", damaged)
        damaged.write_bytes(b'{"text": "a line"}\n')
        self.refuses(r"damaged.parquet' cannot be read as Parquet: ", damaged)

        path = self.folder / "whole.parquet"
        self.refuses(r"whole.parquet' has no column 'body'; it has: text, when; name one with --field", path, "--field", "body")
        self.refuses(r"has no column 'y'; .*; name one with --target", path, "--input", "text", "--target", "y")
        self.refuses(r"has date32\[day\] in column 'when', expected texts, .*--field", path, "--field", "when")
        twice = pa.Table.from_arrays([pa.array(texts)] * 2, ["text", "text"])
        self.refuses(r"has more than one column 'text'", self.write("twice.parquet", twice))
        self.refuses(r"whole.parquet' is Parquet by its suffix, not jsonl: use --format parquet, chat or preference", path, "--format",
                     "jsonl", code=2)
        packed = self.folder / "packed.parquet.gz"
        packed.write_bytes(gzip.compress(whole))
        self.refuses(r"packed.parquet.gz' is a compressed Parquet file", packed)
        other = self.folder / "no_suffix"
        other.write_bytes(whole)
        assert self.tokens(other, "--format", "parquet") == self.tokens(path)

        bad = self.write("bad.parquet", pa.table({"text": [b"good", b"\xc3\xa4 \xff", b"good"]}))
        self.refuses(r"bad record .*bad.parquet: row 2: not UTF-8 at byte 3 of ", bad)
        assert self.tokens(bad)[1] == 1
        self.refuses(r"more than 1 bad records", self.write("bad.parquet", pa.table({"text": pa.nulls(3, pa.string())})),
                     "--on-bad-record", "skip", "--max-bad-records", 1)

    def with_foreign_codec(self, whole):
        """The same bytes, said to be compressed by a codec that Arrow does not have: snappy's number replaced by LZO's."""
        changed = bytearray(whole)
        path = self.folder / "codec.parquet"
        for at in range(whole.rindex(b"text"), 0, -1):
            if whole[at] != 2:
                continue
            changed[at] = 6
            path.write_bytes(changed)
            try:
                if parquet.ParquetFile(path).metadata.row_group(0).column(0).compression == "LZO":
                    return bytes(changed)
            except Exception:  # another field than the codec
                pass
            changed[at] = 2
        raise AssertionError("no codec found")

    def memory(self):
        """Rows that are read and, for want of the other side, not tokenized, which would take long."""
        def peak(texts):
            path = self.write("large.parquet", pa.table({"text": texts, "none": pa.nulls(len(texts), pa.string())}),
                              use_dictionary=False, compression="zstd", row_group_size=len(texts))
            size = sum(part.nbytes for part in texts.chunks)
            ran = subprocess.Popen([self.echelon, "prepare", path, "--input", "text", "--target", "none", "--tokenizer",
                                    self.folder / "hf", "--on-bad-record", "skip", "--threads", "1", "--output",
                                    self.folder / "large"], stderr=subprocess.PIPE, text=True)
            message = ran.stderr.read()
            _, _, usage = os.wait4(ran.pid, 0)
            assert f"{len(texts)} unusable records" in message, message
            return size >> 20, usage.ru_maxrss >> 10

        chunk = lambda count, length: pa.array([self.random.randbytes(length // 2).hex() for _ in range(count)])
        _, few = peak(pa.chunked_array([chunk(10, 1000)]))
        for texts in ([chunk(2000, 4000)] * 25, [chunk(100, 100)] + [chunk(2, 2 << 20)] * 50):
            size, most = peak(pa.chunked_array(texts))
            assert size > 180 and most - few < size / 3, f"{size} MiB of rows take {most} MiB of memory, few rows {few} MiB"
            print(f"{size} MiB of rows in one row group: {most} MiB of memory, few rows {few} MiB")

    def changed_file(self):
        path = self.folder / "large.parquet"  # which takes a while to read
        ran = subprocess.Popen([self.echelon, "prepare", path, "--input", "text", "--target", "none", "--tokenizer",
                                self.folder / "hf", "--on-bad-record", "skip", "--output", self.folder / "large"],
                               stderr=subprocess.PIPE, text=True)
        while ran.poll() is None and str(path) not in map(os.path.realpath, pathlib.Path(f"/proc/{ran.pid}/fd").iterdir()):
            time.sleep(0.01)
        with path.open("ab") as file:
            file.write(b"more")
        _, message = ran.communicate()
        assert ran.returncode == 4 and "changed while it was read" in message, message

    def other_libraries(self, arrow):
        """ECHELON_ARROW comes before the folder that the plugin was built with."""
        path = self.write("few.parquet", pa.table({"text": ["some words"] * 9}))
        version = re.escape(pa.__version__)
        self.refuses(rf"Parquet cannot be read: .*libarrow\.so.*; install its libraries where PyTorch is \(.*pyarrow=={version}\), "
                     r"or elsewhere \(--target FOLDER\) and set ECHELON_ARROW=FOLDER/pyarrow, or write the file as JSONL: ", path, code=3,
                     ECHELON_ARROW=str(self.folder))
        self.run(path, ECHELON_ARROW=str(arrow))

    def missing_plugin(self):
        """Without it everything but Parquet works."""
        alone = self.folder / "bin" / "echelon"
        alone.parent.mkdir()
        shutil.copy(self.echelon, alone)
        path = self.folder / "any.parquet"
        path.write_bytes(b"PAR1")
        self.refuses(r"Parquet cannot be read: there is no '.*libechelon_parquet.so'; build it \(./make.sh build\), or write "
                     r"the file as JSONL: python3 -c ", path, code=3, program=alone)
        self.run(self.jsonl([{"text": "some words"}] * 9), program=alone)


def main():
    global pa, parquet
    parser = argparse.ArgumentParser()
    parser.add_argument("--echelon", type=pathlib.Path, required=True)
    parser.add_argument("--arrow", type=pathlib.Path, help="the folder of pyarrow; left out where there is none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(options.echelon, pathlib.Path(folder))
        checks.missing_plugin()
        if not options.arrow:
            print("SKIPPED: no pyarrow, which ./make.sh setup installs")
            return SKIPPED
        sys.path.append(str(options.arrow.parent))
        import pyarrow as pa
        from pyarrow import parquet
        for check in (checks.every_encoding, checks.every_type_of_text, checks.pairs_and_named_columns, checks.chats,
                      checks.folders_and_threads, checks.killed_amid_a_file, checks.what_cannot_be_read, checks.memory,
                      checks.changed_file):
            started = time.monotonic()
            check()
            print(f"{check.__name__}: {time.monotonic() - started:.1f} s")
        checks.other_libraries(options.arrow)
        print(f"{checks.prepared} times prepared, equal to what pyarrow {pa.__version__} reads")
    return 0


if __name__ == "__main__":
    sys.exit(main())
