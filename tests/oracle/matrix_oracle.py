"""Every strategy, wrap policy, precision, offload, recomputation and accumulation, in pairwise covering
combinations on 1, 2, 3, 4 and 8 real ranks: loss and every gradient against transformers' models of Llama's families,
taken in turn. On 1, 2 and 4 also with frozen parameters."""
import fnmatch
import itertools

import torch

import dump
import reference_models

EXACT = 1e-5
# Layers and sizes so that slices are uneven and cut parameters, on every number of ranks.
SIZES = ["model.vocab_size=83", "model.hidden_size=36", "model.heads=3", "model.kv_heads=1",
         "model.intermediate_size=52", "model.layers=3", "model.init_std=0.05", "data.seq_len=24",
         "train.micro_batch_size=1"]
FAMILIES = {
    "llama": [],
    "olmo2": [],
    "olmo3": ["model.window=9", "model.full_attention_every=2"],
    "smollm3": ["model.no_rope_every=2"],
    "phi3": ["model.window=9"],
    "gemma3_text": ["model.window=9", "model.full_attention_every=2", "model.window_rope_theta=500"],
    "granite": ["model.embedding_multiplier=3", "model.residual_multiplier=0.4", "model.logits_scaling=1.7"],
}
STRATEGIES = ("full_shard", "shard_grad_op", "shard_optimizer", "no_shard", "hybrid_shard", "hybrid_grad_op")
AXES = {
    "strategy": STRATEGIES,
    "reshard": ("true", "false", "2"),
    "wrap": ("transformer", "size_based", "size_based_small", "modules", "none"),
    "recompute": ("none", "full", "every_n", "selective"),
    "offload": ("none", "cpu"),
    "batches": (1, 3),
    "reduce": ("each_micro_batch", "last_micro_batch"),
    "prefetch": (("1", "pre"), ("0", "none"), ("3", "post")),
    "cap": ("0", "20000"),
    "tied": ("false", "true"),
}
WRAP = {
    "transformer": [],
    "size_based": ["shard.wrap.policy=size_based", "shard.wrap.min_params=4000"],
    "size_based_small": ["shard.wrap.policy=size_based", "shard.wrap.min_params=30",
                         'shard.wrap.exclude=["*.self_attn"]'],
    "modules": ["shard.wrap.policy=modules", 'shard.wrap.modules=["*.mlp", "model.layers.1", "*norm"]'],
    "none": ["shard.wrap.policy=none"],
}
# What is frozen: whole units at the start or the end, nearly all, and parts of units and of stacked products.
FROZEN = {
    "embedding": ["model.embed_tokens.*"],
    "start": ["model.embed_tokens.*", "model.layers.[01].*"],
    "blocks": ["model.layers.*", "model.norm.*"],
    "end": ["model.layers.2.*", "model.norm.*"],
    "parts": ["*.q_proj.*", "*layernorm*", "model.layers.1.mlp.down_proj.*"],
}


def allowed(case, ranks):
    hybrid = case["strategy"].startswith("hybrid")
    if hybrid and ranks % 2:
        return False
    if case["strategy"] == "no_shard" and case["offload"] == "cpu":
        return False
    if case["reshard"] == "2":  # neighbors that keep a part each: as many must fit a shard group
        return case["strategy"] in ("full_shard", "hybrid_shard") and ranks % (4 if hybrid else 2) == 0
    return case["reshard"] == "true" or case["strategy"] in ("full_shard", "hybrid_shard")


def covering(ranks):
    """Cases in which every pair of values that may meet does (greedy, deterministic)."""
    everything = [dict(zip(AXES, values)) for values in itertools.product(*AXES.values())]
    everything = [case for case in everything if allowed(case, ranks)]

    def pairs(case):
        return set(itertools.combinations(case.items(), 2))

    missing = set().union(*map(pairs, everything))
    everything = everything[:: max(1, len(everything) // 4000)]  # enough to choose from
    return dump.covering([(case, pairs(case)) for case in everything], missing)


def overrides(case, ranks):
    strategy = case["strategy"]
    found = SIZES + FAMILIES[case["family"]] + WRAP[case["wrap"]] + [
        f"model.kind={case['family']}",
        f"shard.strategy={strategy}", f"shard.offload={case['offload']}",
        f"shard.reshard_after_forward={case['reshard']}",
        f"shard.forward_prefetch={case['prefetch'][0]}", f"shard.backward_prefetch={case['prefetch'][1]}",
        f"shard.max_gathered_bytes={case['cap']}", f"activation_checkpointing.policy={case['recompute']}",
        f"train.reduce_gradients={case['reduce']}", f"train.global_batch_size={ranks * case['batches']}",
        f"model.tie_embeddings={case['tied']}"]
    if "frozen" in case:
        found.append("optim.lr_factors={" + ", ".join(f'"{name}": 0' for name in FROZEN[case["frozen"]]) + "}")
    if strategy.startswith("hybrid"):
        found.append(f"shard.mesh.shard={ranks // 2}")
    return found


class Reference:
    """transformers' loss and gradients; computed once for what differs in neither weights nor ids."""

    def __init__(self):
        self.known = {}

    def of(self, result, output):
        ids = dump.read_ids(output, 25)
        key = (tuple(ids.flatten().tolist()), result.config["tie_word_embeddings"], result.config["model_type"])
        if key not in self.known:
            self.known[key] = self.compute(result, ids)
        loss, gradients, weights = self.known[key]
        for name, weight in result.tensors["weights"].items():  # the same initial weights whatever the sharding
            assert torch.equal(weights[name], weight), name
        return loss, gradients

    @staticmethod
    def compute(result, ids):
        model = reference_models.model_of(result)
        loss = reference_models.mean_loss(model, ids)
        loss.backward()
        return loss.item(), {n: p.grad for n, p in model.named_parameters()}, result.tensors["weights"]


def frozen(case, name):
    return "frozen" in case and any(fnmatch.fnmatchcase(name, pattern) for pattern in FROZEN[case["frozen"]])


def with_frozen(cases, ranks):
    """The cases, and some of them again with frozen parameters."""
    if ranks not in (1, 2, 4):
        return cases
    return cases + [{**case, "frozen": kind} for case, kind in zip(cases[::2], itertools.cycle(FROZEN))]


def with_families(cases, ranks):
    """The cases, of one family after the other; each number of ranks begins with another one."""
    families = itertools.islice(itertools.cycle(FAMILIES), ranks, None)
    return [{**case, "family": family} for case, family in zip(cases, families)]


def check(ranks, case, output, reference):
    result = dump.Dump(output, ranks, ("weights", "gradients"))
    loss, gradients = reference.of(result, output)
    assert gradients.keys() == result.tensors["gradients"].keys()
    for name in [name for name in gradients if frozen(case, name)]:
        assert result.tensors["gradients"][name].count_nonzero() == 0, f"{case}: {name} is frozen"
        gradients = {other: gradient for other, gradient in gradients.items() if other != name}
    errors = {name: dump.relative_error(result.tensors["gradients"][name], g) for name, g in gradients.items()}
    worst = dump.worst_of(errors)
    off = abs(result.loss - loss) / loss
    if errors[worst] <= EXACT and off <= 1e-6:  # false for NaN too
        return True
    print(f"FAIL on {ranks} ranks, {case}: {worst} off by {errors[worst]:.1e}, loss by {off:.1e}", flush=True)
    return False


def main():
    args = dump.arguments()
    torch.manual_seed(0)
    reference = Reference()
    ok, met = True, set()
    with dump.Folder() as folder:
        for ranks in (1, 2, 3, 4, 8):
            cases = {f"case{i}": case for i, case in enumerate(with_families(with_frozen(covering(ranks), ranks), ranks))}
            met |= {(case["family"], case[axis]) for case in cases.values() for axis in ("strategy", "recompute", "wrap")}
            requests = [{"name": name, "mode": "gradients", "overrides": overrides(case, ranks), "perturb": 0.05}
                        for name, case in cases.items()]
            outputs = dump.dump(args, folder, ranks, requests)
            good = [check(ranks, case, outputs[name], reference) for name, case in cases.items()]
            print(f"{ranks} ranks: {sum(good)} of {len(good)} combinations agree", flush=True)
            ok = ok and all(good)
        wanted = {(family, value) for family in FAMILIES for axis in ("strategy", "recompute", "wrap") for value in AXES[axis]}
        assert met == wanted, wanted - met
        if not ok:
            raise SystemExit("the engine and transformers disagree")


if __name__ == "__main__":
    main()
