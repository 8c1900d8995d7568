"""Loss and every gradient of the engine against transformers' models of the same family on the same weights and
ids. The reference computes each sequence by itself; of documents, each document's part of a window."""
import torch

import dump
import token_file
import reference_models

# name: (overrides, ranks, largest relative error)
EXACT = 1e-5
GPT2 = ["model.kind=gpt2", "model.kv_heads=3"]  # 3: the default, which says that the recipe does not name it
# Documents of 1 token and of more than a window, borders at a window's first and last token.
WINDOW, END = 40, 0
LENGTHS = [7, 1, 32, 40, 41, 39, 1, 1, 120, 5, 2, 13, 80, 3, 19, 37] * 3
DOCUMENTS = [[1 + (7 * i + i * i // 5 + length) % 198 for i in range(length - 1)] + [END] for length in LENGTHS]
APART = ["data.kind=tokens", "data.path={folder}/documents.tok", "data.packing=documents", "data.shuffle=false"]
# Conversations; of each, spans of tokens are trained.
CHATS = [document for document in DOCUMENTS if 1 < len(document) <= WINDOW + 1]
TRAINED = [[at % 11 in (3, 4, 5, 9) or at + 1 == len(chat) for at in range(len(chat))] for chat in CHATS]
CHAT = ["data.kind=chat", "data.path={folder}/chats.tok", "data.shuffle=false", "train.micro_batch_size=1"]
QWEN2 = ["model.kind=qwen2", "model.vocab_size=97", "model.hidden_size=84", "model.heads=14", "model.layers=3"]
QWEN3 = ["model.kind=qwen3", "model.head_size=20", "model.heads=6", "model.tie_embeddings=true"]
SMOLLM2 = ["model.hidden_size=54", "model.heads=9", "model.kv_heads=3"]
STRETCHED = ["model.rope_theta=500", "data.seq_len=200", "model.rope_scaling.factor=8", "model.rope_scaling.original_positions=64"]
OLMO2 = ["model.kind=olmo2", "model.heads=6", "model.head_size=10"]
OLMO3 = ["model.kind=olmo3", "model.heads=6", "model.layers=3", "model.window=17", "model.full_attention_every=3"]
SMOLLM3 = ["model.kind=smollm3", "model.layers=3", "model.no_rope_every=2", "model.tie_embeddings=true"]
GRANITE = ["model.kind=granite", "model.embedding_multiplier=3", "model.residual_multiplier=0.4",
           "model.attention_multiplier=0.13", "model.logits_scaling=1.7", "model.tie_embeddings=true"]
PHI3 = ["model.kind=phi3", "model.window=17"]
LONGROPE = ["data.seq_len=64", "model.rope_scaling.kind=longrope", "model.rope_scaling.original_positions=64",
            "model.rope_scaling.short_factor=[1, 1.1, 1.3, 2, 3, 5]", "model.rope_scaling.long_factor=[1, 2, 4, 8, 8, 8]"]
PHI4_MINI = PHI3 + ["model.hidden_size=80", "model.heads=5", "model.kv_heads=1", "model.partial_rotary_factor=0.75",
                    "model.tie_embeddings=true"]
NEOX = ["model.kind=gpt_neox", "model.kv_heads=3", "model.hidden_size=80", "model.heads=5", "model.partial_rotary_factor=0.25"]
GEMMA3 = ["model.kind=gemma3_text", "model.head_size=20", "model.layers=3", "model.window=17", "model.full_attention_every=2",
          "model.rope_theta=50000", "model.window_rope_theta=500", "model.query_pre_attn_scalar=30", "model.tie_embeddings=true"]
BF16 = ["precision.param=bf16", "precision.buffer=bf16", "model.init_std=0.05"]
CASES = {
    "untied": ([], (1, 2, 3), EXACT),
    "tied": (["model.tie_embeddings=true"], (1, 2, 3), EXACT),
    "no_grouping": (["model.kv_heads=4", "data.seq_len=37"], (1, 2), EXACT),
    "group_of_4": (["model.kv_heads=1", "data.seq_len=200"], (1, 3), EXACT),
    "odd_sizes": (["model.vocab_size=97", "model.hidden_size=42", "model.heads=3", "model.kv_heads=1",
                   "model.intermediate_size=77", "model.layers=3", "data.seq_len=129"], (1, 2, 3), EXACT),
    "long": (["data.seq_len=300", "train.micro_batch_size=1", "train.global_batch_size=6"], (1, 2), EXACT),
    "two_tokens": (["data.seq_len=2"], (2,), EXACT),
    "many_layers_prefetch": (["model.layers=5", "shard.forward_prefetch=2", "shard.backward_prefetch=post",
                              "shard.reshard_after_forward=false"], (3,), EXACT),
    "no_prefetch": (["model.layers=3", "shard.forward_prefetch=0", "shard.backward_prefetch=none"], (2,), EXACT),
    "one_unit": (["shard.wrap.policy=none"], (1, 3), EXACT),
    "one_unit_tied": (["shard.wrap.policy=none", "model.tie_embeddings=true"], (2,), EXACT),
    "theta_and_eps": (["model.rope_theta=500000", "model.norm_eps=0.1"], (1,), EXACT),
    "mistral_window": (["model.kind=mistral", "model.head_size=20", "model.window=17", "data.seq_len=300"], (1, 2, 3), EXACT),
    "mistral_documents": (APART + ["model.kind=mistral", "model.window=16"], (2,), EXACT),
    "qwen2": (QWEN2, (1, 2, 3), EXACT),
    "qwen2_window": (QWEN2 + ["model.window=140", "model.window_from_layer=1", "data.seq_len=300"], (2,), EXACT),
    "qwen3": (QWEN3, (1, 2, 3), EXACT),
    "qwen3_documents": (QWEN3 + APART + ["model.kv_heads=1", "model.layers=3"], (2,), EXACT),
    "qwen3_selective": (QWEN3 + ["activation_checkpointing.policy=selective", "shard.strategy=shard_grad_op"], (2,), EXACT),
    "qwen3_full": (QWEN3 + ["activation_checkpointing.policy=full", "shard.wrap.policy=none"], (3,), EXACT),
    "olmo2": (OLMO2, (1, 2, 3), EXACT),
    "olmo2_selective": (OLMO2 + ["activation_checkpointing.policy=selective", "shard.strategy=shard_grad_op"], (2,), EXACT),
    "olmo3": (OLMO3 + STRETCHED + ["model.rope_scaling.kind=yarn", "model.rope_scaling.beta_fast=4"], (1, 2), EXACT),
    "olmo3_documents": (OLMO3 + APART + ["activation_checkpointing.policy=full"], (3,), EXACT),
    "smollm3": (SMOLLM3, (1, 2, 3), EXACT),
    "smollm3_documents": (SMOLLM3 + APART + ["activation_checkpointing.policy=selective"], (2,), EXACT),
    "granite": (GRANITE, (1, 2, 3), EXACT),
    "granite_chats": (GRANITE + CHAT + ["activation_checkpointing.policy=full"], (2,), EXACT),
    "phi3": (PHI3, (1, 2, 3), EXACT),
    "phi3_longrope": (PHI3 + LONGROPE + ["activation_checkpointing.policy=selective"], (2,), EXACT),
    "phi4_mini": (PHI4_MINI + LONGROPE, (1, 3), EXACT),
    "phi4_mini_documents": (PHI4_MINI + APART + ["activation_checkpointing.policy=full"], (2,), EXACT),
    "neox": (NEOX, (1, 2, 3), EXACT),
    "neox_one_after_the_other": (NEOX + ["model.use_parallel_residual=false", "model.hidden_act=gelu_fast", "model.tie_embeddings=true",
                                         "model.rope_theta=500", "model.partial_rotary_factor=1", "shard.strategy=shard_grad_op"],
                                 (2,), EXACT),
    "neox_documents": (NEOX + APART + ["activation_checkpointing.policy=selective", "model.vocab_size=203"], (3,), EXACT),
    "neox_chats": (NEOX + CHAT + ["activation_checkpointing.policy=full", "shard.wrap.policy=none"], (2,), EXACT),
    "gemma3": (GEMMA3, (1, 2, 3), EXACT),
    "gemma3_stretched": (GEMMA3 + ["model.rope_scaling.kind=linear", "model.rope_scaling.factor=8", "model.tie_embeddings=false",
                                   "activation_checkpointing.policy=full"], (2,), EXACT),
    "gemma3_documents": (GEMMA3 + APART + ["activation_checkpointing.policy=selective"], (3,), EXACT),
    "smollm2": (SMOLLM2, (2,), EXACT),
    "llama3_rope": (SMOLLM2 + STRETCHED + ["model.rope_scaling.kind=llama3"], (1,), EXACT),
    "yarn": (SMOLLM2 + STRETCHED + ["model.rope_scaling.kind=yarn", "model.rope_scaling.beta_fast=4"], (1,), EXACT),
    "yarn_whole": (STRETCHED + ["model.rope_scaling.kind=yarn", "model.rope_scaling.beta_fast=3", "model.rope_scaling.beta_slow=0.7",
                                "model.rope_scaling.attention_factor=1.5", "model.rope_scaling.truncate=false"], (1,), EXACT),
    "linear_rope": (STRETCHED[:-1] + ["model.rope_scaling.kind=linear"], (1,), EXACT),
    "dynamic_rope": (STRETCHED[:-1] + ["model.rope_scaling.kind=dynamic", "model.rope_scaling.original_positions=256"], (1,), EXACT),
    "gpt2_untied": (GPT2, (1, 2, 3), EXACT),
    "gpt2_tied": (GPT2 + ["model.tie_embeddings=true"], (1, 2, 3), EXACT),
    "gpt2_odd_sizes": (GPT2 + ["model.vocab_size=97", "model.hidden_size=45", "model.heads=3", "model.layers=3",
                               "model.intermediate_size=77", "data.seq_len=129"], (1, 2, 3), EXACT),
    "gpt2_one_unit": (GPT2 + ["shard.wrap.policy=none", "model.norm_eps=0.1"], (2,), EXACT),
    "gpt2_small_units": (GPT2 + ["shard.wrap.policy=size_based", "shard.wrap.min_params=30",
                                 "activation_checkpointing.policy=selective"], (2, 3), EXACT),
    "gpt2_recomputed": (GPT2 + ["activation_checkpointing.policy=full", "model.tie_embeddings=true"], (2,), EXACT),
    "gpt2_selective": (GPT2 + ["activation_checkpointing.policy=selective"], (1, 2), EXACT),
    "gpt2_zero2": (GPT2 + ["shard.strategy=shard_grad_op", "model.tie_embeddings=true"], (2, 3), EXACT),
    "gpt2_summed": (GPT2 + ["shard.strategy=shard_optimizer"], (3,), EXACT),
    "documents": (APART, (1, 2), EXACT),
    "documents_recomputed": (APART + ["activation_checkpointing.policy=selective", "shard.strategy=shard_grad_op"], (3,), EXACT),
    "gpt2_documents": (GPT2 + APART, (1, 2), EXACT),
    "chats": (CHAT, (1, 2, 3), EXACT),
    "chats_qwen3": (QWEN3 + CHAT + ["activation_checkpointing.policy=selective"], (2,), EXACT),
    "chats_gpt2": (GPT2 + CHAT, (3,), EXACT),
    "gpt2_bf16": (GPT2 + ["precision.param=bf16", "model.init_std=0.05"], (2,), 3e-2),
    "bf16": (["precision.param=bf16", "precision.buffer=bf16", "model.init_std=0.05"], (1, 2), 3e-2),
    "qwen2_bf16": (QWEN2 + ["precision.param=bf16", "precision.buffer=bf16", "model.init_std=0.05"], (2,), 3e-2),
    "qwen3_bf16": (QWEN3 + ["precision.param=bf16", "precision.buffer=bf16", "model.init_std=0.05"], (2,), 3e-2),
    # A weight of a norm over all heads sums fewer numbers than one over each head: rounding shows more.
    "olmo2_bf16": (OLMO2 + BF16 + ["precision.buffer=fp32"], (2,), 4e-2),
    "olmo3_bf16": (OLMO3 + BF16 + ["precision.buffer=fp32"], (2,), 4e-2),
    "smollm3_bf16": (SMOLLM3 + BF16, (1,), 3e-2),
    "granite_bf16": (GRANITE + BF16, (1,), 3e-2),
    "phi3_bf16": (PHI3 + BF16, (1,), 3e-2),
    "phi4_mini_bf16": (PHI4_MINI + BF16, (2,), 3e-2),
    "neox_bf16": (NEOX + BF16, (1,), 3e-2),
    "gemma3_bf16": (GEMMA3 + BF16, (2,), 3e-2),
    "bf16_tied": (["precision.param=bf16", "model.tie_embeddings=true", "model.init_std=0.05"], (3,), 3e-2),
}


def sequences(output):
    """(ids, the ids to be predicted after each of them) of the samples of a case, and how many predictions they count as."""
    ids, targets = dump.read_i64(output, "ids"), dump.read_i64(output, "targets")
    lengths = dump.read_i64(output, "lengths").tolist()
    return list(zip(ids.split(lengths), targets.split(lengths))), targets.numel()


def document_sequences(windows):
    """The same out of DOCUMENTS: what predicts something in each document's part of each window."""
    stream = [token for document in DOCUMENTS for token in document]
    made = []
    for begin in range(0, windows * WINDOW, WINDOW):
        window = stream[begin:begin + WINDOW + 1]
        cuts = [0] + [i + 1 for i, token in enumerate(window) if token == END]
        parts = [window[a:b] for a, b in zip(cuts, cuts[1:] + [len(window)])]
        made += [(torch.tensor(part[:-1]), torch.tensor(part[1:])) for part in parts if len(part) > 1]
    return made, windows * WINDOW


def chat_sequences(samples):
    """The same out of CHATS, neighbors packed into windows: targets that are not trained are -100."""
    made, packed, room = [], 0, 0
    for chat, trained in zip(CHATS, TRAINED):
        if len(chat) - 1 > room:
            packed, room = packed + 1, WINDOW
        if packed > samples:
            break
        room -= len(chat) - 1
        wanted = [token if counts else -100 for token, counts in zip(chat, trained)]
        made.append((torch.tensor(chat[:-1]), torch.tensor(wanted[1:])))
    return made, samples * WINDOW


def reference(result, parts, counted, dtype=torch.float32):
    """transformers' loss and gradients by parameter name."""
    model = reference_models.model_of(result).to(dtype)
    loss = 0
    for inputs, wanted in parts:
        logits = model(input_ids=inputs[None]).logits[0].float()
        loss = loss + torch.nn.functional.cross_entropy(logits, wanted, reduction="sum") / counted
    loss.backward()
    return loss.item(), reference_models.gradients_of(model, result)


KNOWN = dump.Once()


def compare(name, ranks, output):
    limit = CASES[name][2]
    result = dump.Dump(output, ranks, ("weights", "gradients"))
    samples = (document_sequences(12) if "documents" in name else chat_sequences(12) if "chats" in name
               else sequences(output))
    tensors = {**result.tensors["weights"], "samples": torch.cat([part for pair in samples[0] for part in pair])}
    loss, gradients = KNOWN.of(name, tensors, lambda: reference(result, *samples))
    assert gradients.keys() == result.tensors["gradients"].keys()
    errors = {key: dump.relative_error(result.tensors["gradients"][key], gradients[key]) for key in gradients}
    if "bf16" in name and max(errors.values()) > limit:
        # How processors round products in bf16 differs. Beyond the limit a gradient may be a quarter farther from fp32's
        # than transformers' own in bf16 is on this processor.
        rounded = reference(result, *samples, dtype=torch.bfloat16)[1]
        for key in [key for key, error in errors.items() if error > limit]:
            theirs = dump.relative_error(rounded[key].float(), gradients[key])
            print(f"     {key}: {errors[key]:.2e} from fp32; transformers in bf16 {theirs:.2e}")
            errors[key] = min(errors[key], limit * errors[key] / (1.25 * theirs))
    errors["loss"] = abs(result.loss - loss) / loss
    return dump.verdict(name, ranks, errors, limit, f"loss {loss:.5f}, ")


def main():
    args = dump.arguments()
    torch.manual_seed(0)
    with dump.Folder() as folder:
        token_file.write(folder / "documents.tok", DOCUMENTS, 199)
        token_file.write(folder / "chats.tok", CHATS, 199, TRAINED)
        cases = {name: ([override.replace("{folder}", str(folder)) for override in case[0]], case[1]) for name, case in CASES.items()}
        dump.compare_gradients(args, folder, cases, compare)


if __name__ == "__main__":
    main()
