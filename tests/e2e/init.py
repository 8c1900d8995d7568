"""echelon init: five questions, and a recipe that validates, fits and trains."""
import os
import pty

import product
import chat_folder

QUESTIONS = ("--goal", "--model", "--data", "--machines", "--steps")
PRETRAIN = ("pretrain", "smollm2_135m", "data", "1 x 2 cpu", "20")


class Tests(product.Case):
    def init(self, *answers, output="first.yaml", **more):
        """Gives the answers as options."""
        given = [word for pair in zip(QUESTIONS, answers) for word in pair]
        return self.command(product.ECHELON, "init", output, *given, **more)

    def value(self, recipe, key):
        return self.command(product.ECHELON, "validate", recipe, "--value", key).out.strip()

    def test_answers_on_standard_input_make_a_recipe_that_trains(self):
        self.prepare()
        said = self.command(product.ECHELON, "init", "first.yaml", typed="\n".join(PRETRAIN) + "\n")
        self.assertEqual("first.yaml\n", said.out)
        self.assertIn("echelon train first.yaml --ranks 2", said.err)
        self.assertEqual("320", self.value("first.yaml", "model.vocab_size"))
        self.train("first.yaml", "model.layers=1", "data.seq_len=64", "train.steps=2", ranks=2)
        self.assertEqual(2, len(self.metrics("runs/pretrain-smollm2_135m")))

    def test_options_and_answers_make_the_same_recipe(self):
        self.prepare()
        self.command(product.ECHELON, "init", "typed.yaml", typed="\n".join(PRETRAIN) + "\n")
        self.init(*PRETRAIN, output="given.yaml")
        typed, given = ((self.folder / name).read_text() for name in ("typed.yaml", "given.yaml"))
        self.assertEqual(typed.replace("typed.yaml", "given.yaml"), given)

    def test_what_is_too_large_is_made_to_fit(self):
        self.prepare()
        machine = ("--gpu", "a100-40g", "--nodes", 1, "--gpus-per-node", 4)
        self.init("pretrain", "llama_7b", "data", "1 x 4 a100-40g", "100")
        self.assertNotEqual("none", self.value("first.yaml", "activation_checkpointing.policy"))
        self.command(product.ECHELON, "plan", "first.yaml", *machine)
        self.command(product.ECHELON, "plan", "first.yaml", *machine, "activation_checkpointing.policy=none",
                     "shard.offload=none", code=2)

    def test_what_cannot_fit_writes_nothing(self):
        self.prepare()
        said = self.init("pretrain", "gpt_1t", "data", "1 x 1 l40s", "100", code=2)
        self.assertIn("init: no change of the recipe makes it fit; nothing was written", said.err)
        self.assertFalse((self.folder / "first.yaml").exists())

    def test_adapters_are_trained_on_chats(self):
        self.train(self.recipe(**{"model.vocab_size": 262, "train.steps": 1, "schedule.warmup_steps": 0}))
        self.command(product.CKPT, "export", "run", "--output", "hf")
        chat_folder.write(self.folder / "hf")
        chat_folder.write_chats(self.folder / "chats.jsonl", [[("user", "alpha"), ("assistant", "beta")]] * 40)
        self.command(product.ECHELON, "prepare", "chats.jsonl", "--format", "chat", "--tokenizer", "hf", "--output", "chats")
        self.init("lora", "hf", "chats", "1 x 1 cpu", "3")
        self.assertEqual(["chat", "16"], [self.value("first.yaml", key) for key in ("data.kind", "lora.rank")])
        self.train("first.yaml")
        self.prepare()
        self.expect(2, product.ECHELON, "init", "other.yaml", "--goal", "lora", "--model", "hf", "--data", "data")
        (self.folder / "pairs.jsonl").write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\n' * 40)
        self.command(product.ECHELON, "prepare", "pairs.jsonl", "--format", "preference", "--tokenizer", "hf", "--output", "pairs")
        self.expect(2, product.ECHELON, "init", "other.yaml", "--goal", "lora", "--model", "hf", "--data", "pairs")

    def test_answers_that_mean_nothing_are_refused(self):
        self.prepare()
        for wrong in (("train",), ("pretrain", "llama_7"), ("pretrain", "llama_7b", "nowhere"),
                      ("pretrain", "llama_7b", "data", "2 h100"), ("pretrain", "llama_7b", "data", "1 x 1 h1000"),
                      ("pretrain", "llama_7b", "data", "1 x 1 cpu", "0"), ("lora", "nowhere"),
                      ("pretrain", "llama_7b", "data", "1 x 1 cpu 2")):
            self.expect(2, product.ECHELON, "init", "first.yaml", *[word for pair in zip(QUESTIONS, wrong) for word in pair])
        self.command(product.ECHELON, "prepare", "a=data-text/0.txt", "b=data-text/1.txt", "--weight", "a=1", "--weight", "b=1",
                     "-o", "mix", "--train-tokenizer", 320)
        self.expect(2, product.ECHELON, "init", "first.yaml", "--goal", "pretrain", "--model", "llama_7b", "--data", "mix")
        self.expect(2, product.ECHELON, "init", "first.yaml", "--goal", "pretrain", "--model", "llama_7b")
        self.init(*PRETRAIN)
        self.expect(2, product.ECHELON, "init", "first.yaml")
        long = self.command(product.ECHELON, "init", "n" * 300, code=3).err
        self.assertEqual(f"echelon: '{'n' * 300}': File name too long\n", long)
        (self.folder / "link.yaml").symlink_to("nowhere")
        self.assertIn("is not overwritten", self.command(product.ECHELON, "init", "link.yaml", code=2).err)

    def test_at_a_terminal_a_wrong_answer_is_asked_for_again(self):
        self.prepare()
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execv(product.ECHELON, [product.ECHELON, "init", "first.yaml"])
        os.write(terminal, "\n".join(("nothing", *PRETRAIN[:3], "", "20", "")).encode())
        said = b""
        try:
            while block := os.read(terminal, 65536):
                said += block
        except OSError:  # the other end is closed
            pass
        self.assertEqual(0, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said)
        self.assertIn(b"'nothing'; expected pretrain, fine-tune or lora", said)
        self.assertIn("For 1 x 1 ranks on cpu", (self.folder / "first.yaml").read_text())


if __name__ == "__main__":
    product.main()
