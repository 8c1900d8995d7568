"""Loss and every gradient of the engine's T5 against transformers' T5ForConditionalGeneration on the same weights and
pairs of texts of different lengths, which transformers gets padded and masked."""
import torch

import dump
import reference_models

EXACT = 1e-5
TINY = ["model.kind=t5", "model.vocab_size=97", "model.hidden_size=24", "model.heads=4", "model.layers=2",
        "model.intermediate_size=40", "model.norm_eps=1e-6", "model.kv_heads=3", "model.max_positions=2048",
        "model.init_std=0.02", "data.kind=synthetic_pairs", "data.seq_len=70", "data.target_len=33"]
V1_0 = TINY + ["model.tie_embeddings=true"]
V1_1 = TINY + ["model.feed_forward=gated_gelu"]
BF16 = ["precision.param=bf16", "precision.buffer=bf16"]
# name: (overrides, ranks, largest relative error: of each gradient, or in bf16 of all of them together)
CASES = {
    "v1_0": (V1_0, (1, 2, 3), EXACT),
    "v1_1": (V1_1, (1, 2, 3), EXACT),
    "head_size": (V1_0 + ["model.head_size=5", "model.heads=3", "model.decoder_layers=3"], (3,), EXACT),
    "buckets": (V1_1 + ["model.relative_buckets=8", "model.relative_max_distance=20", "data.seq_len=150"], (1,), EXACT),
    "far": (V1_0 + ["data.seq_len=300", "data.target_len=200", "data.full_length=true",
                    "train.global_batch_size=4"], (1,), EXACT),
    "longer_targets": (V1_1 + ["data.seq_len=9", "data.target_len=140"], (2,), EXACT),
    "one_token": (V1_0 + ["data.seq_len=1", "data.target_len=1"], (2,), EXACT),
    "recompute": (V1_0 + ["activation_checkpointing.policy=full", "model.layers=3"], (1, 3), EXACT),
    "recompute_cheap": (V1_1 + ["activation_checkpointing.policy=selective"], (1, 2), EXACT),
    "recompute_second": (V1_1 + ["activation_checkpointing.policy=every_n", "activation_checkpointing.every_n=2",
                                 "model.layers=3", "shard.strategy=shard_grad_op"], (2,), EXACT),
    "recompute_parts": (V1_0 + ["activation_checkpointing.policy=full",
                                'activation_checkpointing.modules=["*.EncDecAttention", "*.DenseReluDense"]'], (2,), EXACT),
    "prefetch": (V1_0 + ["model.layers=4", "shard.forward_prefetch=3", "shard.backward_prefetch=post",
                         "shard.reshard_after_forward=false"], (3,), EXACT),
    "no_prefetch": (V1_1 + ["shard.forward_prefetch=0", "shard.backward_prefetch=none"], (2,), EXACT),
    "one_unit": (V1_0 + ["shard.wrap.policy=none"], (3,), EXACT),
    "small_units": (V1_0 + ["shard.wrap.policy=size_based", "shard.wrap.min_params=30"], (2,), EXACT),
    "biases_apart": (V1_1 + ["shard.wrap.policy=modules", "activation_checkpointing.policy=full",
                             'shard.wrap.modules=["*relative_attention_bias", "*norm", "decoder.block.*"]'], (2,), EXACT),
    "zero2": (V1_0 + ["shard.strategy=shard_grad_op"], (2, 3), EXACT),
    "summed": (V1_1 + ["shard.strategy=shard_optimizer"], (3,), EXACT),
    "no_shard": (V1_0 + ["shard.strategy=no_shard"], (2,), EXACT),
    "offload": (V1_1 + ["shard.offload=cpu"], (2,), EXACT),
    "bf16": (V1_0 + BF16, (1, 2), 5e-2),
    "bf16_v1_1": (V1_1 + BF16, (3,), 5e-2),
}


def padded(values, lengths, padding):
    rows = torch.split(values, lengths.tolist())
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding)


def pairs(output):
    """What transformers takes for the samples of a case."""
    lengths = dump.read_i64(output, "lengths")
    ids = padded(dump.read_i64(output, "ids"), lengths, 0)
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    labels = padded(dump.read_i64(output, "targets"), dump.read_i64(output, "target_lengths"), -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def reference(result, batch):
    """transformers' loss and gradients by parameter name, summed as the engine sums them."""
    model = reference_models.model_of(result)
    loss = model(**batch).loss * (batch["labels"] >= 0).sum() * result.scale
    loss.backward()
    return loss.item(), reference_models.gradients_of(model, result)


def errors_of(ours, theirs, exact):
    assert theirs.keys() == ours.keys()
    if not exact:
        joined = [torch.cat([tensors[key].flatten() for key in theirs]) for tensors in (ours, theirs)]
        return {"all gradients": dump.relative_error(*joined)}
    largest = max(float(gradient.norm()) for gradient in theirs.values())
    errors = {}
    for key, gradient in theirs.items():
        # With one token attention has nothing to choose: its gradients are rounding, ours as theirs.
        if float(gradient.norm()) > 1e-6 * largest:
            errors[key] = dump.relative_error(ours[key], gradient)
        elif not float(ours[key].norm()) <= 1e-5 * largest:
            errors[key] = float("inf")
    return errors


KNOWN = dump.Once()


def compare(name, ranks, output):
    limit = CASES[name][2]
    result = dump.Dump(output, ranks, ("weights", "gradients"))
    batch = pairs(output)
    loss, gradients = KNOWN.of(name, {**result.tensors["weights"], **batch}, lambda: reference(result, batch))
    errors = errors_of(result.tensors["gradients"], gradients, limit == EXACT)
    errors["loss"] = abs(result.loss - loss) / loss
    return dump.verdict(name, ranks, errors, limit, f"loss {loss:.5f}, ")


def main():
    args = dump.arguments()
    torch.manual_seed(0)
    with dump.Folder() as folder:
        dump.compare_gradients(args, folder, CASES, compare)


if __name__ == "__main__":
    main()
