"""Bad training data: one line says what, where, what was expected and what to do, and the exit code is 4."""
import shutil

import product

BLOCK = 1 << 16
# Cases of the golden table: what is asked for beside data/, other/ with another tokenizer, and mixed/ of the two.
UNFIT = {
    "token_file_missing": ["data.path=data/none.tok"],
    "tokenizer_of_other_data": ["data.path=mixed/train.tok"],
    "validation_file_missing": ["data.validation.path=data/nothing.tok", "train.validate_every_steps=2"],
}
TOKENIZER = ["--train-tokenizer", 320]
# Cases of the golden table: exit code, files, and what prepare is given besides its output.
NOT_PREPARED = {
    "record_is_no_json": (4, {"a.jsonl": b'{"text": "one"}\nonce upon a time\n'}, "a.jsonl", "--format", "jsonl", *TOKENIZER),
    "vocabulary_too_small_for_the_text": (
        4, {"source/a.txt": "".join(map(chr, range(0x4e00, 0x4e00 + 200))).encode()}, "source", "--train-tokenizer", 300),
    "output_not_writable": (4, {"source/a.txt": b"one two three"}, "source", "-o", "/proc/echelon-data", *TOKENIZER),
    "weight_of_no_source": (2, {}, "web=a", "--weight", "web=1", "--weight", "code=1"),
    "weight_twice": (2, {}, "web=a", "--weight", "web=1", "--weight", "web=2"),
    "weight_zero": (2, {}, "web=a", "--weight", "web=0"),
    "weight_missing": (2, {}, "web=a", "code=b", "--weight", "web=1"),
    "weight_and_a_source_without_name": (2, {}, "a", "--weight", "web=1"),
    "weight_and_two_sources_of_one_name": (2, {}, "web=a", "web=b", "--weight", "web=1"),
    "weight_and_a_name_that_leaves_the_output": (2, {}, "../web=a", "--weight", "../web=1"),
    "weight_of_preferences": (2, {}, "web=a", "--weight", "web=1", "--format", "preference"),
    "source_of_a_mixture_missing": (4, {"source/a.txt": b"one two three"}, "web=source", "code=b", "--weight", "web=1",
                                    "--weight", "code=1", *TOKENIZER),
    "tokenizer_is_a_name": (4, {"a.txt": b"alpha"}, "a.txt", "--tokenizer", "Qwen/Qwen3-0.6B"),
}


class Tests(product.Case):
    def refuse(self, *overrides, case=""):
        """Training on data/ ends with 4; neither weights nor metrics are written."""
        self.recipe(**product.ON_TOKENS)
        self.expect(4, *self.train_command("recipe.yaml", *overrides), case=case)
        self.assertEqual([], self.checkpoints())

    def test_data_that_do_not_fit_are_refused(self):
        self.prepare()
        self.prepare("other", vocabulary=319)
        (self.folder / "mixed").mkdir()
        for source in ("data/train.tok", "other/tokenizer.model"):
            shutil.copy(self.folder / source, self.folder / "mixed")
        for case, overrides in UNFIT.items():
            with self.subTest(case):
                self.refuse(*overrides, case=case)

    def test_token_file_bit_flipped(self):
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

    # -- echelon prepare

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def test_prepare_refuses(self):
        for case, (code, files, *words) in NOT_PREPARED.items():
            for name in ("source", "data"):
                shutil.rmtree(self.folder / name, ignore_errors=True)
            for name, content in files.items():
                self.write(name, content)
            with self.subTest(case):
                self.expect(code, product.ECHELON, "prepare", *words, *([] if "-o" in words else ["-o", "data"]), case=case)
                self.assertFalse((self.folder / "data" / "train.tok").exists())

    def test_prepare_output_is_a_file(self):
        self.write("source/a.txt", "one two three")
        self.write("data", "mine")
        self.expect(4, product.ECHELON, "prepare", "source", "-o", "data", "--train-tokenizer", 320)
        self.assertEqual("mine", (self.folder / "data").read_text())

    def test_prepare_output_of_other_sources(self):
        self.prepare()
        before = (self.folder / "data/train.tok").read_bytes()
        self.write("source/a.txt", "one two three")
        self.expect(4, product.ECHELON, "prepare", "source", "-o", "data", "--train-tokenizer", 320)
        self.assertEqual(before, (self.folder / "data/train.tok").read_bytes())

    def test_prepare_tokenizer_is_a_folder_without_one(self):
        (self.folder / "a.txt").write_text("alpha")
        (self.folder / "hf").mkdir()
        self.expect(4, product.ECHELON, "prepare", "a.txt", "-o", "data", "--tokenizer", "hf")

    def test_packing_changed_on_resume(self):
        self.prepare()
        self.train(self.recipe(**product.ON_TOKENS))
        self.expect(4, *self.train_command("recipe.yaml", "train.steps=6", "data.packing=documents"))


if __name__ == "__main__":
    product.main()
