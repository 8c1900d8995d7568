"""Pairs of texts: prepare, train a T5 whose generated texts are scored in validation, and let it answer."""
import json

import product

SOURCE, TARGET = "alpha beta gamma delta epsilon zeta eta theta", "alpha gamma epsilon"
T5 = {"model.kind": "t5", "model.kv_heads": 3, "model.max_positions": 2048, "model.vocab_size": 320,
      "model.tie_embeddings": True, "data.kind": "pairs", "data.path": "data/train.tok", "data.seq_len": 40,
      "data.target_len": 24, "optim.lr": 1e-2, "train.steps": 40, "train.validate_every_steps": 20,
      "data.validation.path": "data/valid.tok", "data.validation.batches": 1, "data.validation.generate": 5,
      "data.validation.max_new_tokens": 20}


def prepare(case):
    """The files that T5 reads, in a test's folder."""
    rows = [f"{SOURCE},{TARGET}"] * 40
    (case.folder / "pairs.csv").write_text("\n".join(["text,headline", *rows]) + "\n")
    case.command(product.ECHELON, "prepare", "pairs.csv", "--format", "csv", "--input", "text", "--target",
                 "headline", "-o", "data", "--train-tokenizer", 300, "--validation-fraction", 0.4)


class Tests(product.Case):
    def trained(self, *overrides, ranks=1):
        prepare(self)
        self.train(self.recipe(**T5), *overrides, ranks=ranks)
        return [line for line in self.metrics() if "validation_loss" in line]

    def check(self, validated, beams):
        self.assertEqual([20, 40], [line["step"] for line in validated])
        text = self.command(product.ECHELON, "sample", "run", "--prompt", SOURCE, "--tokens", 20, "--beams", beams).out
        self.assertEqual(TARGET, text.strip(), "forty steps on one pair")
        for options in (("--beams", beams), ("--temperature", 1, "--top-k", 9, "--seed", 3)):
            options = ("--prompt", SOURCE, "--prompt", "theta", "--prompt", "alpha eta", "--tokens", 20, *options)
            alone = self.command(product.ECHELON, "sample", "run", *options).out
            self.assertEqual(alone, self.command(product.ECHELON, "sample", "run", *options, "--ranks", 2).out)
        self.assertEqual([1, 1, 1], [validated[-1][key] for key in ("rouge1", "rouge2", "rougeL")])

    def test_texts_are_generated_and_scored_in_validation(self):
        self.check(self.trained(), 1)
        # Every id that the model names ends a text, not the data's EOS alone: here each token.
        self.command(product.CKPT, "export", "run", "--output", "hf")
        (self.folder / "hf/generation_config.json").write_text(json.dumps({"eos_token_id": list(range(1, 320))}))
        recipe = {key: value for key, value in {**product.TINY, **T5}.items() if not key.startswith("model.")}
        (self.folder / "ended.yaml").write_text(product.yaml_text(
            {**recipe, "model.from": "hf", "run.dir": "ended", "optim.lr": 1e-9, "schedule.min_lr": 0, "train.steps": 4,
             "train.validate_every_steps": 4}))
        self.train("ended.yaml")
        [validated] = [line for line in self.metrics("ended") if "validation_loss" in line]
        self.assertEqual([0, 0, 0], [validated[key] for key in ("rouge1", "rouge2", "rougeL")])

    def test_several_ranks_share_out_what_beams_generate(self):
        self.check(self.trained("data.validation.beams=3", ranks=3), 3)


if __name__ == "__main__":
    product.main()
