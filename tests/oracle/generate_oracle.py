"""Greedy and beam search continuations of prompts of different lengths, token for token those of transformers'
generate() with the same weights."""
import json
import random

import torch

import dump
import reference_models

GPT2 = ["model.kind=gpt2", "model.kv_heads=3"]
VOCABULARY = 12  # small, so that many continuations end
SMALL = [f"model.vocab_size={VOCABULARY}", "model.init_std=0.4"]  # far from uniform: continuations differ
MODELS = {
    "llama": [],
    "mistral": ["model.kind=mistral", "model.window=7", "model.head_size=16"],
    "qwen3": ["model.kind=qwen3", "model.head_size=16", "model.rope_scaling.kind=yarn", "model.rope_scaling.factor=4",
              "model.rope_scaling.original_positions=16"],
    "olmo2": ["model.kind=olmo2", "model.head_size=16"],
    "olmo3": ["model.kind=olmo3", "model.window=7", "model.full_attention_every=2", "model.rope_scaling.kind=yarn",
              "model.rope_scaling.factor=4", "model.rope_scaling.original_positions=16"],
    "smollm3": ["model.kind=smollm3", "model.no_rope_every=2"],
    "granite": ["model.kind=granite", "model.embedding_multiplier=2", "model.residual_multiplier=0.6",
                "model.attention_multiplier=0.2", "model.logits_scaling=0.5"],
    "phi3": ["model.kind=phi3", "model.window=7", "model.rope_scaling.kind=longrope", "model.rope_scaling.original_positions=128",
             "model.rope_scaling.short_factor=[1, 1.1, 1.3, 2, 3, 5]", "model.rope_scaling.long_factor=[1, 2, 4, 8, 8, 8]"],
    "phi4_mini": ["model.kind=phi3", "model.head_size=16", "model.partial_rotary_factor=0.75"],
    "neox": ["model.kind=gpt_neox", "model.kv_heads=3", "model.hidden_size=64", "model.partial_rotary_factor=0.25"],
    "gemma3": ["model.kind=gemma3_text", "model.window=7", "model.full_attention_every=2", "model.window_rope_theta=500",
               "model.head_size=16"],
    "gpt2_tied": GPT2 + ["model.tie_embeddings=true"],
    "t5": ["model.kind=t5", "model.kv_heads=3", "model.max_positions=2048", "model.init_std=0.02",
           "data.kind=synthetic_pairs", "model.relative_buckets=8", "model.relative_max_distance=20",
           "model.feed_forward=gated_gelu"],
    "t5_tied": ["model.kind=t5", "model.kv_heads=3", "model.max_positions=2048", "model.init_std=0.02",
                "data.kind=synthetic_pairs", "model.tie_embeddings=true"],
}
SEARCHES = {
    "greedy": {"beams": 1},
    "greedy_two_ends": {"beams": 1, "end_ids": [7, 3]},
    "greedy_endless": {"beams": 1, "end_ids": []},
    "beams": {"beams": 4},
    "beams_three_ends": {"beams": 4, "end_ids": [7, 3, 1]},
    "beams_endless": {"beams": 4, "end_ids": []},
    "long_beams": {"beams": 3, "length_penalty": 2.0},
    "short_beams": {"beams": 5, "length_penalty": -1.0},
}
# Search is the same code for all: the other models meet it in these ways, one of which reorders the cache.
EVERY_SEARCH = ("llama", "gpt2_tied", "t5", "t5_tied")
SOME = ("greedy", "beams")
MAX_NEW_TOKENS = 24
END_IDS = [7]
LENGTHS = (1, 2, 9, 40, 17)
RANKS = (1, 2, 3)


def prompts(name):
    draw = random.Random(name)
    return [[draw.randrange(VOCABULARY) for _ in range(length)] for length in LENGTHS]


def requests():
    return [{"name": f"{model}-{search}", "mode": "generate", "overrides": SMALL + MODELS[model], "perturb": 0.05,
             "prompts": prompts(model), "max_new_tokens": MAX_NEW_TOKENS, "end_ids": END_IDS, **SEARCHES[search]}
            for model in MODELS for search in (SEARCHES if model in EVERY_SEARCH else SOME)]


def reference(request, result):
    """transformers' continuations."""
    model = reference_models.model_of(result)
    return [continuation(model, request, ids) for ids in request["prompts"]]


def continuation(model, request, ids):
    whole = model.generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.int64), do_sample=False,
        num_beams=request["beams"], length_penalty=request.get("length_penalty", 1.0), early_stopping=False,
        max_new_tokens=request["max_new_tokens"], eos_token_id=request["end_ids"] or None, pad_token_id=0)[0].tolist()
    added = whole[1:] if model.config.is_encoder_decoder else whole[len(ids):]
    return added[:next((at for at, id in enumerate(added) if id in request["end_ids"]), None)]


def continuations(output, ranks, count):
    """Prompt i was continued by rank i % ranks."""
    parts = [json.loads((output / f"rank-{rank}.tokens.json").read_text()) for rank in range(ranks)]
    return [parts[i % ranks][i // ranks] for i in range(count)]


def main():
    args = dump.arguments()
    known = dump.Once()
    wrong, ended = [], 0
    with dump.Folder() as folder:
        for ranks in RANKS:
            outputs = dump.dump(args, folder, ranks, requests())
            for request in requests():
                output = outputs[request["name"]]
                result = dump.Dump(output, ranks, ("weights",))
                expected = known.of(request["name"], result.tensors["weights"], lambda: reference(request, result))
                found = continuations(output, ranks, len(expected))
                same = sum(a == b for a, b in zip(found, expected))
                ended += sum(len(ids) < MAX_NEW_TOKENS for ids in expected)
                print(f"{request['name']} on {ranks}: {same} of {len(expected)} continuations agree", flush=True)
                if same < len(expected):
                    wrong.append(request["name"])
                    print([(a, b) for a, b in zip(found, expected) if a != b][:2])
        assert ended > 20, "hardly any continuation ends before its last token: the comparison is weak"
        if wrong:
            raise SystemExit(f"the engine and transformers disagree: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
