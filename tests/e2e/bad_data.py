"""Bad training data: one line says what, where, what was expected and what to do, and the exit code is 4."""
import shutil

import product

BLOCK = 1 << 16


class Tests(product.Case):
    def refuse(self, *overrides, ranks=1, **recipe):
        """Training on data/ ends with 4; neither weights nor metrics are written."""
        self.recipe(**{**product.ON_TOKENS, **recipe})
        self.expect(4, *self.train_command("recipe.yaml", *overrides, ranks=ranks))
        self.assertEqual([], self.checkpoints())

    def test_token_file_missing(self):
        self.refuse()

    def test_token_file_is_a_folder(self):
        (self.folder / "data" / "train.tok").mkdir(parents=True)
        self.refuse()

    def test_token_file_empty(self):
        self.prepare()
        (self.folder / "data/train.tok").write_bytes(b"")
        self.refuse()

    def test_token_file_foreign(self):
        self.prepare()
        (self.folder / "data/train.tok").write_text("PK\x03\x04 is how other files begin " * 10)
        self.refuse()

    def test_token_file_truncated(self):
        self.prepare()
        path = self.folder / "data/train.tok"
        path.write_bytes(path.read_bytes()[:-1000])
        self.refuse()

    def test_token_file_truncated_in_its_header(self):
        self.prepare()
        path = self.folder / "data/train.tok"
        path.write_bytes(path.read_bytes()[:77])
        self.refuse()

    def test_token_file_extended(self):
        self.prepare()
        with (self.folder / "data/train.tok").open("ab") as file:
            file.write(b"\n")
        self.refuse()

    def test_token_file_header_bit_flipped(self):
        self.prepare()
        self.flip("data/train.tok", 33)
        self.refuse()

    def test_token_file_checksums_bit_flipped(self):
        self.prepare()
        self.flip("data/train.tok", -2)
        self.refuse()

    def test_token_file_token_bit_flipped(self):
        self.prepare()
        self.flip("data/train.tok", 200)
        self.refuse()

    def test_token_file_bit_flipped_where_only_one_rank_reads(self):
        self.prepare(words=40000)
        self.assertGreater((self.folder / "data/train.tok").stat().st_size, BLOCK + 4096)
        self.flip("data/train.tok", BLOCK + 3000)
        # Without shuffling and with one long sequence a rank, rank 1 alone reaches the second block.
        sequence = BLOCK // 2 - 128
        self.recipe(**{**product.ON_TOKENS, "data.shuffle": False, "data.seq_len": sequence,
                       "model.max_positions": sequence, "train.global_batch_size": 2, "model.layers": 1})
        result = self.train("recipe.yaml", ranks=2, code=4)
        cause, *noticed = [line for line in result.err.splitlines() if not product.PROGRESS.match(line)]
        self.assertRegex(cause, r"^echelon: rank 1/2 \S+: token file 'data/train.tok' is damaged: block \d+ \(bytes \d+ to "
                                r"\d+\) does not match its checksum; copy or prepare it again$")
        for line in noticed:  # rank 0 waits for rank 1 in vain, and may say so before it is stopped
            self.assertRegex(line, r"^echelon: rank 0/2 \S+: rank 1 \(\S+\) has ended ")

    def test_token_file_of_a_larger_vocabulary(self):
        self.prepare()
        self.refuse("model.vocab_size=319")

    def test_token_file_shorter_than_a_sequence(self):
        self.prepare(words=50)
        self.refuse("data.seq_len=4096", "model.max_positions=4096")

    def test_tokenizer_of_other_data(self):
        self.prepare()
        self.prepare("other", vocabulary=319, seed=2)
        shutil.copy(self.folder / "other/tokenizer.model", self.folder / "data/tokenizer.model")
        self.refuse()

    def test_tokenizer_missing(self):
        self.prepare()
        self.refuse("data.tokenizer=data/mine.model")

    def test_tokenizer_is_no_model(self):
        self.prepare()
        (self.folder / "notes.txt").write_text("my tokenizer\n")
        self.refuse("data.tokenizer=notes.txt")

    def test_validation_file_missing(self):
        self.prepare()
        self.refuse("data.validation.path=data/nothing.tok", "train.validate_every_steps=2")

    def test_validation_file_of_another_tokenizer(self):
        self.prepare()
        self.prepare("other", vocabulary=319, seed=2)
        self.refuse("data.validation.path=other/valid.tok", "train.validate_every_steps=2")

    # -- echelon prepare

    def refuse_to_prepare(self, *arguments, code=4):
        self.expect(code, product.ECHELON, "prepare", *arguments)
        self.assertFalse((self.folder / "data" / "train.tok").exists())

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def test_prepare_no_matching_files(self):
        self.write("source/picture.png", b"\x89PNG")
        self.refuse_to_prepare("source", "-o", "data", "--train-tokenizer", 320)

    def test_prepare_source_missing(self):
        self.refuse_to_prepare("source", "-o", "data", "--train-tokenizer", 320)

    def test_prepare_record_without_the_field(self):
        self.write("a.jsonl", '{"text": "one"}\n{"body": "two"}\n')
        self.refuse_to_prepare("a.jsonl", "-o", "data", "--format", "jsonl", "--train-tokenizer", 320)

    def test_prepare_record_is_no_json(self):
        self.write("a.jsonl", '{"text": "one"}\nonce upon a time\n')
        self.refuse_to_prepare("a.jsonl", "-o", "data", "--format", "jsonl", "--train-tokenizer", 320)

    def test_prepare_text_is_not_utf8(self):
        self.write("source/a.txt", "caf\u00e9".encode("latin-1"))
        self.refuse_to_prepare("source", "-o", "data", "--train-tokenizer", 320)

    def test_prepare_only_empty_files(self):
        self.write("source/a.txt", "")
        self.refuse_to_prepare("source", "-o", "data", "--train-tokenizer", 320)

    def test_prepare_vocabulary_too_small_for_the_text(self):
        self.write("source/a.txt", "".join(map(chr, range(0x4e00, 0x4e00 + 200))))
        self.refuse_to_prepare("source", "-o", "data", "--train-tokenizer", 300)

    def test_prepare_output_is_a_file(self):
        self.write("source/a.txt", "one two three")
        self.write("data", "mine")
        self.expect(4, product.ECHELON, "prepare", "source", "-o", "data", "--train-tokenizer", 320)
        self.assertEqual("mine", (self.folder / "data").read_text())

    def test_prepare_output_not_writable(self):
        self.write("source/a.txt", "one two three")
        self.refuse_to_prepare("source", "-o", "/proc/echelon-data", "--train-tokenizer", 320)

    def test_prepare_output_of_other_sources(self):
        self.prepare()
        before = (self.folder / "data/train.tok").read_bytes()
        self.write("source/a.txt", "one two three")
        self.expect(4, product.ECHELON, "prepare", "source", "-o", "data", "--train-tokenizer", 320)
        self.assertEqual(before, (self.folder / "data/train.tok").read_bytes())

    def test_prepare_tokenizer_is_a_name(self):
        (self.folder / "a.txt").write_text("alpha")
        self.expect(4, product.ECHELON, "prepare", "a.txt", "-o", "data", "--tokenizer", "Qwen/Qwen3-0.6B")

    def test_prepare_tokenizer_is_a_folder_without_one(self):
        (self.folder / "a.txt").write_text("alpha")
        (self.folder / "hf").mkdir()
        self.expect(4, product.ECHELON, "prepare", "a.txt", "-o", "data", "--tokenizer", "hf")

    def test_packing_changed_on_resume(self):
        self.prepare()
        self.train(self.recipe(**product.ON_TOKENS))
        self.expect(4, *self.train_command("recipe.yaml", "train.steps=6", "data.packing=documents"))

    def test_prepare_without_a_tokenizer(self):
        self.write("source/a.txt", "one two three")
        self.refuse_to_prepare("source", "-o", "data", code=2)

    def test_prepare_tokenizer_is_no_model(self):
        self.write("source/a.txt", "one two three")
        self.write("notes.txt", "my tokenizer\n")
        self.refuse_to_prepare("source", "-o", "data", "--tokenizer", "notes.txt")


if __name__ == "__main__":
    product.main()
