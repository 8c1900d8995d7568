"""DPO against its formula in plain PyTorch, on transformers' and peft's models: the loss and all gradients, with a reference
that differs from the model, for whole models and adapters, packed pairs, 1 and 3 ranks."""
import json
import random

import torch

import dump
import chat_folder
import lora_oracle
import reference_models
from trained import command

LIMIT = 1e-5
BETA = 0.3
CASES = {  # name: overrides, ranks
    "whole": ([], (1, 3)),
    "qwen3_tied_packed": (["model.kind=qwen3", "model.tie_embeddings=true", "data.seq_len=240", "train.micro_batch_size=1",
                           "train.global_batch_size=3"], (1, 3)),
    "summed": (["shard.strategy=shard_optimizer"], (3,)),
    "recomputed": (["activation_checkpointing.policy=full"], (1,)),
    "adapters": (lora_oracle.LORA, (1, 3)),
    "part_of_adapters": (lora_oracle.PART + ["activation_checkpointing.policy=selective"], (3,)),
}
DROPPED = {"dropout": [], "dropout_recomputed": ["activation_checkpointing.policy=full"]}


def prepare(echelon, folder):
    """Pairs of answers of different lengths behind prompts of one and of three turns."""
    chance = random.Random(3)
    text = lambda: " ".join(chance.choice(("the", "heat", "of", "tea")) for _ in range(chance.randint(1, 4)))
    turn = lambda role: {"role": role, "content": text()}
    lines = [{"prompt": [turn("user"), *([turn("assistant"), turn("user")] if i % 5 == 0 else [])],
              "chosen": [turn("assistant")], "rejected": [turn("assistant")]} for i in range(60)]
    lines = [line for line in lines if line["chosen"] != line["rejected"]]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    chat_folder.write(folder / "hf")
    command(echelon, "prepare", folder / "pairs.jsonl", "--format", "preference", "--tokenizer", folder / "hf", "--output",
            folder / "data", "--validation-fraction", 0)


def log_probabilities(model, output):
    """Of the answers of a dump's samples: [pairs, 2]."""
    ids, targets = dump.read_i64(output, "ids"), dump.read_i64(output, "targets")
    lengths = dump.read_i64(output, "lengths").tolist()
    sums = []
    for one, wanted in zip(ids.split(lengths), targets.split(lengths)):
        found = model(input_ids=one[None]).logits[0].double().log_softmax(-1).gather(1, wanted.clamp_min(0)[:, None])[:, 0]
        sums.append(found[wanted >= 0].sum())
        assert 0 < (wanted >= 0).sum() < len(wanted), "a prompt is not trained, an answer is"
    return torch.stack(sums).view(-1, 2)


def model_of(result, overrides):
    """The model of a dump, and its parameters by our names."""
    if any(override.startswith("lora.") for override in overrides):
        return lora_oracle.model_of(result, overrides)
    model = reference_models.model_of(result)
    return model, dict(model.named_parameters())


def compare(name, ranks, output):
    overrides, _ = CASES[name]
    start = output.with_name(f"{name}-start-{ranks}")
    with torch.no_grad():
        reference = log_probabilities(model_of(dump.Dump(start, ranks, ("weights",)), overrides)[0], output)
    result = dump.Dump(output, ranks, ("weights", "gradients"))
    model, parameters = model_of(result, overrides)
    own = log_probabilities(model, output)
    moved = (own - reference).detach()
    assert moved.abs().min() > 1e-3, "the noise moves every answer"
    margins = BETA * (moved[:, 0] - moved[:, 1])
    assert (margins > 0).any() and (margins < 0).any(), "some pairs are right, some are wrong"
    difference = own - reference
    loss = -torch.nn.functional.logsigmoid(BETA * (difference[:, 0] - difference[:, 1])).sum() * result.scale
    loss.backward()
    ours = result.tensors["gradients"]
    expected = {key: parameter.grad for key, parameter in parameters.items()}
    for other in ours.keys() - expected.keys():
        assert not ours[other].any(), f"{other} is frozen and has a gradient"
    errors = {key: dump.relative_error(ours[key], gradient) for key, gradient in expected.items()}
    errors["loss"] = abs(result.loss - loss.item()) / loss.item()
    return dump.verdict(name, ranks, errors, LIMIT, f"{len(margins)} pairs, ")


def main():
    args = dump.arguments()
    torch.manual_seed(0)
    with dump.Folder() as folder:
        prepare(args.echelon, folder)
        data = ["data.kind=preference", f"data.path={folder / 'data' / 'train.tok'}", "data.seq_len=160",
                "model.vocab_size=262", f"train.dpo.beta={BETA}", "train.global_batch_size=6"]
        cases = {name: (data + overrides, worlds) for name, (overrides, worlds) in CASES.items()}
        starts = [{"name": f"{name}-start", "mode": "weights", "perturb": 0, "overrides": case[0]} for name, case in cases.items()]
        more = [*starts, *lora_oracle.with_dropout(DROPPED, data)]
        outputs = dump.compare_gradients(args, folder, cases, compare, more, (1, 3), perturb=0.03)
        lora_oracle.same_masks(outputs, "adapters")


if __name__ == "__main__":
    main()
