"""Conversations from a JSONL file to training: what is trained is the same for any ranks, and nothing is lost on the way."""
import json
import random

import product
import chat_folder

ON_CHATS = {"data.kind": "chat", "data.path": "data/train.tok", "data.validation.path": "data/valid.tok",
            "data.validation.batches": 0, "data.seq_len": 64, "model.max_positions": 64, "model.vocab_size": 262,
            "train.validate_every_steps": 2, "train.global_batch_size": 4, "train.steps": 4, **product.CONSTANT}


def turns(*said):
    """The text of turns by the template of chat_folder, up to where the assistant answers."""
    return "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in said) + "<|im_start|>assistant\n"


class Tests(product.Case):
    def chats(self, *options, count=60, code=0, template=chat_folder.CHATML):
        """Answers of very different lengths, so that micro-batches differ in what is trained."""
        chance = random.Random(5)
        chat_folder.write(self.folder / "hf", template)
        chat_folder.write_chats(self.folder / "chats.jsonl", [
            [("user", chance.choice(product.WORDS)), ("assistant", "the " * chance.choice((1, 1, 1, 12)))]
            for _ in range(count)])
        return self.command(product.ECHELON, "prepare", "chats.jsonl", "--format", "chat", "--tokenizer", "hf", "-o", "data",
                            "--validation-fraction", 0.2, "--json", *options, code=code)

    def test_losses_agree_whatever_ranks_and_micro_batches_and_after_a_resume(self):
        audit = json.loads(self.chats().out)["chat"]
        self.assertTrue(audit["end_of_turn_trained"])
        recipe = self.recipe(**ON_CHATS)
        self.train(recipe, "run.dir=one")
        expected = self.losses("one", 4)
        self.train(recipe, "run.dir=two", "train.micro_batch_size=2", ranks=2)
        self.assert_close(expected, self.losses("two", 4))
        self.train(recipe, "run.dir=parts", "train.steps=2")
        self.train(recipe, "run.dir=parts", ranks=2)
        self.train(recipe, "run.dir=whole")
        self.assert_close(self.losses("whole", 4), self.losses("parts", 4))

    def test_the_mask_is_not_lost_by_another_kind(self):
        self.chats()
        recipe = self.recipe(**ON_CHATS)
        self.expect(4, *self.train_command(recipe, "data.kind=tokens"))
        self.expect(4, *self.train_command(recipe, "data.seq_len=16"))

    def test_a_mask_that_is_wrong_stops_and_leaves_nothing(self):
        self.chats()
        self.assertTrue((self.folder / "data/train.tok").exists())
        chat_folder.write_chats(self.folder / "chats.jsonl", [[("user", "alpha")]] * 3)
        self.expect(4, product.ECHELON, "prepare", "chats.jsonl", "--format", "chat", "--tokenizer", "hf", "-o", "new")
        (self.folder / "chats.jsonl").write_text('{"messages": [{"role": "user", "content": "alpha"}, {"role": "bot"}]}\n')
        self.expect(4, product.ECHELON, "prepare", "chats.jsonl", "--format", "chat", "--tokenizer", "hf", "-o", "new")
        self.assertEqual([], sorted((self.folder / "new").iterdir()))

    def test_a_folder_is_fine_tuned_with_adapters(self):
        self.train(self.recipe(**{"model.vocab_size": 262, "model.max_positions": 64, "train.steps": 1,
                                     "schedule.warmup_steps": 0}), "run.dir=base")
        self.command(product.CKPT, "export", "base", "--output", "hf")
        # Not the end that the tokenizer's own file would give: that of the template's turns.
        (self.folder / "hf/generation_config.json").write_text('{"eos_token_id": 2}')
        self.chats()
        (self.folder / "tune.yaml").write_text(product.yaml_text({
            "model.from": "hf", "lora.rank": 4, "data.kind": "chat", "data.path": "data/train.tok", "data.seq_len": 64,
            "optim.lr": 0.01, "schedule.kind": "constant", "train.steps": 6, "train.micro_batch_size": 1,
            "train.global_batch_size": 8, "metrics.every_steps": 1, "run.dir": "tuned"}))
        self.train("tune.yaml", ranks=2)
        losses = [float(loss) for loss in self.losses("tuned", 6)]
        self.assertLess(losses[-1], losses[0])
        self.command(product.CKPT, "export", "tuned", "--output", "adapter")
        self.assertTrue((self.folder / "adapter/adapter_model.safetensors").exists())
        self.command(product.CKPT, "export", "tuned", "--merge", "--output", "merged")
        self.assertEqual(2, json.loads((self.folder / "merged/generation_config.json").read_text())["eos_token_id"])
        answer = self.command(product.ECHELON, "sample", "merged", "--prompt", "<|im_start|>user", "--tokens", 4).out
        self.assertEqual(answer, self.command(product.ECHELON, "sample", "tuned", "--prompt", "<|im_start|>user", "--tokens", 4).out)
        self.assertEqual(self.talk("tuned", "alpha"), self.talk("merged", "alpha"))

    def talk(self, model, question, *options, **more):
        return self.command(product.ECHELON, "sample", model, "--chat", "--tokens", 8, "--prompt", question, *options, **more).out

    def test_a_model_of_chats_alone_talks_by_its_template_and_stops_where_turns_end(self):
        """The template and the end of a turn are those that prepare used: no other file says them."""
        self.chats()
        self.train(self.recipe(**ON_CHATS), "train.steps=40", "optim.lr=0.02", "model.max_positions=160")
        self.command(product.CKPT, "export", "run", "--output", "exported")
        for file in "config.json", "generation_config.json":
            self.assertEqual(2, json.loads((self.folder / "exported" / file).read_text())["eos_token_id"], file)
        self.assertEqual(chat_folder.CHATML, (self.folder / "exported/chat_template.jinja").read_text())
        answer = self.talk("run", "alpha")
        self.assertRegex(answer, r"^(the )+\n$")
        self.assertEqual(answer, self.talk("exported", "alpha"))
        continued = self.command(product.ECHELON, "sample", "run", "--tokens", 8, "--prompt", turns(("user", "alpha"))).out
        self.assertEqual(turns(("user", "alpha")) + answer, continued)

        (self.folder / "dated.jinja").write_text("{{ strftime_now('%Y') }}" + chat_folder.CHATML)
        self.talk("run", "alpha", "--chat-template", "dated.jinja")

        talk = ["sample", "run", "--chat", "--tokens", 8, "--system", "gamma"]
        first, second = self.command(product.ECHELON, *talk, typed="alpha\n\nbeta\n").out.splitlines()
        self.assertEqual([first, second], self.command(product.ECHELON, *talk, typed="\ufeffalpha\r\nbeta\r\n").out.splitlines())
        (self.folder / "forgetful.jinja").write_text("{% for m in messages[-1:] %}" + chat_folder.CHATML.partition("%}")[2])
        drawn = [product.ECHELON, "sample", "run", "--chat", "--temperature", 2, "--tokens", 8, "--chat-template", "forgetful.jinja"]
        self.assertEqual(self.command(*drawn, "--prompt", "alpha", "--prompt", "alpha").out, self.command(*drawn, typed="alpha\nalpha\n").out)
        said = turns(("system", "gamma"), ("user", "alpha"), ("assistant", first), ("user", "beta"))
        continued = self.command(product.ECHELON, "sample", "run", "--tokens", 8, "--prompt", said).out
        self.assertEqual(said + second + "\n", continued)

    def test_the_end_of_a_turn_is_the_one_that_was_trained(self):
        """What the run knows of the template's values does not matter, nor where the tokenizer lies."""
        self.chats("--date", "2026-01-02", template="{{ strftime_now('%Y') }}" + chat_folder.CHATML)
        self.assertEqual([2], json.loads((self.folder / "data/prepare.json").read_text())["chat"]["turn_end_ids"])
        recipe = self.recipe(**ON_CHATS)
        for keys in ((), ("data.tokenizer=hf/tokenizer.json",)):
            said = self.train(recipe, "train.steps=1", "schedule.warmup_steps=0", f"run.dir=run{len(keys)}", *keys)
            self.assertNotIn("no token is known to end", str(said))
            self.command(product.CKPT, "export", f"run{len(keys)}", "--output", f"exported{len(keys)}")
            exported = self.folder / f"exported{len(keys)}"
            self.assertEqual(2, json.loads((exported / "config.json").read_text())["eos_token_id"])
            self.assertIn("strftime_now", (exported / "chat_template.jinja").read_text())
        (self.folder / "data/prepare.json").unlink()  # as if by an earlier version
        said = self.train(recipe, "train.steps=1", "schedule.warmup_steps=0", "run.dir=untold")
        self.assertIn("no token is known to end the turns of 'data/train.tok'", str(said))

    def test_a_run_scores_answers_that_end_as_its_checkpoints_end_them(self):
        self.chats()
        (self.folder / "t.jsonl").write_text(json.dumps({"prompt": turns(("user", "alpha")), "answers": [
            " ".join(["the"] * count) for count in range(1, 13)]}))
        recipe = self.recipe(**{**ON_CHATS, "evaluation.tasks": "{t: t.jsonl}", "evaluation.until": "{t: nowhere}",
                                "evaluation.max_new_tokens": 24, "evaluation.max_share": 1})
        self.train(recipe, "train.steps=40", "optim.lr=0.02", "model.max_positions=160")
        self.train(recipe, "train.steps=41", "optim.lr=0.02", "model.max_positions=160")
        scores = [line["eval/t/exact"] for line in self.metrics() if "eval/t/exact" in line]
        evaluate = [product.ECHELON, "evaluate", "run", "--task", "t.jsonl", "--tokens", 24, "--until", "nowhere", "--json"]
        self.assertEqual(1, json.loads(self.command(*evaluate).out)["tasks"]["t"]["exact"])
        self.assertEqual([1, 1], scores)
        self.command(product.CKPT, "export", "run", "--output", "endless")
        for name, key, end in (("config.json", "eos_token_id", 0), ("generation_config.json", "eos_token_id", 0),
                               ("tokenizer_config.json", "eos_token", "<|endoftext|>")):
            file = self.folder / "endless" / name
            file.write_text(json.dumps({**json.loads(file.read_text()), key: end}))
        for until, score in (("nowhere", 0), ("<|im_end|>", 1)):  # which the text of an answer does not show
            told = self.command(product.ECHELON, "evaluate", "endless", *evaluate[3:-2], until, "--json").out
            self.assertEqual(score, json.loads(told)["tasks"]["t"]["exact"], until)

    def test_what_cannot_be_talked_with(self):
        self.chats()
        self.train(self.recipe(**ON_CHATS), "train.steps=1", "schedule.warmup_steps=0", "model.max_positions=160")
        self.expect(2, product.ECHELON, "sample", "run", "--system", "be brief", "--prompt", "alpha")
        self.expect(2, product.ECHELON, "sample", "run", "--chat", "--ranks", 2)
        self.expect(2, product.ECHELON, "sample", "run", "--chat", "--prompt", "alpha " * 60)
        (self.folder / "refusing.jinja").write_text("{{ raise_exception('no system turn') if messages[0].role == 'system' }}a")
        self.expect(4, product.ECHELON, "sample", "run", "--chat", "--system", "a", "--prompt", "b", "--chat-template",
                    "refusing.jinja")
        self.command(product.CKPT, "export", "run", "--output", "hf-other")
        other = json.loads((self.folder / "hf-other/tokenizer.json").read_text())
        other["model"]["vocab"] = {word: number + 5000 for word, number in other["model"]["vocab"].items()}
        for token in other["added_tokens"]:
            token["id"] += 5000
        (self.folder / "hf-other/tokenizer.json").write_text(json.dumps(other))
        self.expect(4, product.ECHELON, "sample", "hf-other", "--chat", "--prompt", "alpha")
        self.prepare("text-data")
        self.train(self.recipe(), "run.dir=text", "train.steps=1", "schedule.warmup_steps=0", "model.vocab_size=320",
                   "data.kind=tokens", "data.path=text-data/train.tok", "run.dir=text")
        self.expect(4, product.ECHELON, "sample", "text", "--chat", "--prompt", "alpha")
        self.command(product.CKPT, "export", "text", "--output", "hf-text")
        (self.folder / "hf-text/tokenizer.json").unlink()
        self.expect(4, product.ECHELON, "sample", "hf-text", "--chat", "--prompt", "alpha", "--chat-template", "refusing.jinja")

    def test_shown_conversations_have_what_is_trained_in_brackets(self):
        self.chats()
        shown = self.command(product.ECHELON, "prepare", "chats.jsonl", "--format", "chat", "--tokenizer", "hf", "-o", "data",
                             "--validation-fraction", 0.2, "--show", 1).out
        self.assertRegex(shown, r"conversation 1 of train.tok\n<\|im_start\|>user\n\w+<\|im_end\|>\n"
                                r"<\|im_start\|>assistant\n⟦(the )+<\|im_end\|>\n⟧")

    def test_a_terminal_has_progress_unless_told_and_the_same_brackets(self):
        self.chats()

        def shown(output, *options):
            command = [product.ECHELON, "prepare", "chats.jsonl", "--format", "chat", "--tokenizer", "hf", "-o", output, *options]
            return self.on_terminal(*command, "--show", 1), self.command(*command, "--force", "--seed", 2).err

        on_terminal, without = shown("usual")
        self.assertIn("⟦the ", on_terminal)
        self.assertIn("\x1b[K", on_terminal)
        self.assertNotEqual("", without)
        on_terminal, without = shown("quiet", "--quiet")
        self.assertIn("⟦the ", on_terminal)
        self.assertNotIn("x1b", on_terminal.replace("\x1b", "x1b"))
        self.assertEqual("", without)


if __name__ == "__main__":
    product.main()
