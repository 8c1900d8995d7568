"""echelon plan: its memory and traffic are those of real runs, its FLOPs those counted by hand; a trillion parameters take
little memory of its own; what it cannot plan it says in one line."""
import json
import os
import pathlib
import re
import resource
import signal
import statistics
import xml.etree.ElementTree

import product
import chat_folder

RECIPES = product.TOP / "recipes"
LONG_FORM = "ECHELON_TEST_LONG" in os.environ  # ./make.sh test --long
TWO_STEPS = ["train.steps=2", "train.device=cpu", "train.threads_per_rank=1", "schedule.warmup_steps=0",
             "checkpoint.every_steps=0", "metrics.every_steps=1"]
NO_RECOMPUTATION = "activation_checkpointing.policy=none"
SELECTIVE = "activation_checkpointing.policy=selective"
FIVE_PASSES = "train.global_batch_size=20"  # of two ranks with two samples each; the rehearsal has three
VALIDATES = ["data.validation.samples=64", "train.validate_every_steps=1"]
TINY_VIT = ["model.preset=vit_base", "model.hidden_size=64", "model.intermediate_size=128", "model.layers=2",
            "model.heads=4", "model.image_size=32", "model.patch_size=8", "model.classes=10"]

# oneDNN's scratch memory is not predicted. Where a processor has AVX-512 but no instructions for bf16, or has AMX, oneDNN
# takes some for products of bf16; elsewhere Echelon computes those of models as small as these by itself.
PROCESSOR = pathlib.Path("/proc/cpuinfo").read_text()
OF_ONEDNN = 0.25 if "amx_bf16" in PROCESSOR else 0.02 if "avx512_bf16" in PROCESSOR else 0.15

# Recipe, ranks, overrides.
SHARE = {
    "fp32": ("smoke", 2, []),
    "a rank alone, each block recomputed": ("llama_smoke", 1, []),
    "no recomputation": ("llama_smoke", 2, [NO_RECOMPUTATION]),
    "selective": ("llama_smoke", 2, [SELECTIVE, "shard.strategy=shard_grad_op"]),
    "hybrid_shard": ("llama_smoke", 4, ["shard.strategy=hybrid_shard", "shard.mesh.shard=2"]),
    "reshard_after_forward": ("llama_smoke", 4, ["shard.reshard_after_forward=2", "optim.ema_decay=0.9"]),
    "offload": ("llama_smoke", 2, ["shard.offload=cpu", "optim.kind=sgd", "optim.betas=[0.9, 0.95]", "optim.momentum=0.9"]),
    "five passes": ("llama_smoke", 2, ["shard.strategy=shard_optimizer", FIVE_PASSES]),
    "anyprecision": ("llama_smoke", 2, ["optim.kind=anyprecision_adamw", "precision.preset=bf16_pure"]),
    "muon": ("llama_smoke", 2, ["optim.kind=muon", "optim.lr_factors={\"*.o_proj.*\": 0}"]),
    "lora": ("lora_smoke", 2, ["precision.frozen=bf16"]),
    "gpt2, dropout": ("gpt_smoke", 2, ["model.dropout=0.1", NO_RECOMPUTATION]),
    "t5": ("t5_smoke", 2, ["shard.strategy=no_shard"]),
    "deepvit": ("deepvit_smoke", 4, []),
    "cnn, adadelta, validation": ("mnist_smoke", 2, VALIDATES),
    "two threads": ("llama_smoke", 1, ["train.threads_per_rank=2"]),
}
MORE = {
    **{f"{recipe}, {ranks} ranks": (recipe, ranks, [])
       for recipe in ("llama_smoke", "gpt_smoke", "t5_smoke", "deepvit_smoke", "mnist_smoke", "smoke") for ranks in (1, 2, 4)},
    "no_shard": ("llama_smoke", 2, ["shard.strategy=no_shard"]),
    "no_shard, five passes": ("smoke", 2, ["shard.strategy=no_shard", FIVE_PASSES]),
    "shard_optimizer": ("llama_smoke", 2, ["shard.strategy=shard_optimizer"]),
    "hybrid_grad_op": ("llama_smoke", 4, ["shard.strategy=hybrid_grad_op", "shard.mesh.replicate=2"]),
    "hybrid, six passes": ("smoke", 4, ["shard.strategy=hybrid_shard", "shard.mesh.shard=2", "train.global_batch_size=48"]),
    "last_micro_batch": ("llama_smoke", 2, ["train.reduce_gradients=last_micro_batch", FIVE_PASSES]),
    "three ranks": ("llama_smoke", 3, ["train.global_batch_size=6"]),
    "kept gathered": ("llama_smoke", 2, ["shard.reshard_after_forward=false"]),
    "one unit": ("llama_smoke", 2, ["shard.wrap.policy=none"]),
    "size_based": ("llama_smoke", 2, ["shard.wrap.policy=size_based", "shard.wrap.min_params=20000"]),
    "no prefetch": ("llama_smoke", 2, ["shard.forward_prefetch=0", "shard.backward_prefetch=none"]),
    "late prefetch": ("llama_smoke", 2, ["shard.backward_prefetch=post", "shard.max_gathered_bytes=100000"]),
    "every_n": ("llama_smoke", 2, ["activation_checkpointing.policy=every_n"]),
    "kept inputs on the host": ("llama_smoke", 2, ["activation_checkpointing.offload=true"]),
    "fp32, no recomputation": ("llama_smoke", 2, ["precision.preset=fp32", NO_RECOMPUTATION]),
    "grad_bf16": ("llama_smoke", 2, ["precision.preset=grad_bf16"]),
    "norms in fp32": ("llama_smoke", 2, ["precision.preset=bf16", 'precision.overrides={"*norm": fp32}']),
    "tied": ("llama_smoke", 2, ["model.tie_embeddings=true"]),
    "untied": ("gpt_smoke", 2, ["model.tie_embeddings=false", "train.clip_grad_norm=1"]),
    "frozen start": ("llama_smoke", 2, ['optim.lr_factors={"model.embed_tokens.*": 0, "model.layers.[01].*": 0}']),
    "frozen end, no recomputation": ("llama_smoke", 2, ['optim.lr_factors={"lm_head.*": 0, "model.norm.*": 0, "model.layers.[23].*": 0}',
                                     "optim.ema_decay=0.9", NO_RECOMPUTATION]),
    "frozen norms": ("llama_smoke", 2, ['optim.lr_factors={"*norm*": 0}']),
    "lora, base in fp32": ("lora_smoke", 1, []),
    "lora, one unit": ("lora_smoke", 2, ["shard.wrap.policy=none", "lora.modules=[q_proj]", NO_RECOMPUTATION]),
    "lora, recomputed": ("lora_smoke", 2, ["activation_checkpointing.policy=full", "shard.strategy=shard_optimizer"]),
    "lora, tied, no_shard": ("lora_smoke", 2, ["model.tie_embeddings=true", "shard.strategy=no_shard"]),
    "a large vocabulary": ("llama_smoke", 2, ["model.vocab_size=5000", NO_RECOMPUTATION]),
    "larger": ("llama_smoke", 2, ["model.layers=12", "model.hidden_size=128", "model.intermediate_size=384"]),
    "a save between": ("llama_smoke", 2, ["checkpoint.every_steps=1"]),
    "gpt2 in fp32": ("gpt_smoke", 2, ["precision.preset=fp32", "model.dropout=0.1", NO_RECOMPUTATION]),
    "t5, no recomputation": ("t5_smoke", 2, [NO_RECOMPUTATION, "model.dropout=0"]),
    "t5, selective": ("t5_smoke", 2, [SELECTIVE, "shard.strategy=shard_grad_op"]),
    "t5, full length": ("t5_smoke", 2, ["data.full_length=true", "model.feed_forward=gated_gelu"]),
    "deepvit, selective": ("deepvit_smoke", 2, [SELECTIVE, *VALIDATES]),
    "deepvit in fp32": ("deepvit_smoke", 2, ["precision.preset=fp32", NO_RECOMPUTATION]),
    "vit": ("deepvit_smoke", 2, TINY_VIT),
    "cnn, averaged": ("mnist_smoke", 1, ["optim.ema_decay=0.9", "shard.strategy=no_shard"]),
    "gpt2, two threads": ("gpt_smoke", 1, ["train.threads_per_rank=2"]),
    "t5, two threads": ("t5_smoke", 1, ["train.threads_per_rank=2"]),
    "no recomputation, two threads": ("llama_smoke", 1, ["train.threads_per_rank=2", NO_RECOMPUTATION]),
}

# Sizes that are no powers of two; heads of 24 share keys and values in threes, as a GPU's kernels take them.
TEXT = {"model.vocab_size": 509, "model.hidden_size": 144, "model.intermediate_size": 200, "model.layers": 3,
        "model.heads": 6, "model.max_positions": 128, "data.kind": "synthetic_tokens", "data.seq_len": 96}
T5 = {"model.kind": "t5", "model.vocab_size": 509, "model.hidden_size": 144, "model.intermediate_size": 200, "model.layers": 3,
      "model.decoder_layers": 2, "model.heads": 6, "model.head_size": 40, "data.kind": "synthetic_pairs", "data.full_length": True,
      "data.seq_len": 96, "data.target_len": 40}
IMAGES = {"model.hidden_size": 144, "model.intermediate_size": 200, "model.layers": 3, "model.heads": 6, "model.image_size": 40,
          "model.patch_size": 8, "model.channels": 3, "model.classes": 11, "data.kind": "synthetic_images"}
CNN = {"model.kind": "cnn", "model.image_size": 28, "model.channels": 1, "model.classes": 10, "data.kind": "synthetic_images"}
TRAINED = 3  # a product and, in backward, the gradients of both its operands
OF_IMAGES = 2  # pixels get no gradient


def causal_attention(layers, heads, head_size, length):
    """FLOPs of a sample, forward: two products with the (T + 1) / 2 keys that a query sees on average."""
    return layers * 4 * heads * head_size * length * (length + 1) / 2


def attention(layers, heads, head_size, queries, keys):
    return layers * 4 * heads * head_size * queries * keys


def llama_flops(r, kv_heads):
    """(FLOPs of products, of attention in forward) of a sample."""
    hidden, length, head = r["model.hidden_size"], r["data.seq_len"], r["model.hidden_size"] // r["model.heads"]
    block = hidden * (hidden + 2 * kv_heads * head) + hidden * hidden + 3 * hidden * r["model.intermediate_size"]
    weights = r["model.layers"] * block + hidden * r["model.vocab_size"]
    return TRAINED * 2 * weights * length, causal_attention(r["model.layers"], r["model.heads"], head, length)


def gpt2_flops(r):
    hidden, length = r["model.hidden_size"], r["data.seq_len"]
    block = 4 * hidden * hidden + 2 * hidden * r["model.intermediate_size"]
    weights = r["model.layers"] * block + hidden * r["model.vocab_size"]
    return (TRAINED * 2 * weights * length,
            causal_attention(r["model.layers"], r["model.heads"], hidden // r["model.heads"], length))


def t5_flops(r):
    """Its bias makes fused attention compute what the decoder's mask hides, too."""
    hidden, inner, heads, head = r["model.hidden_size"], r["model.intermediate_size"], r["model.heads"], r["model.head_size"]
    source, target = r["data.seq_len"], r["data.target_len"]
    projection, feed_forward = hidden * heads * head, 2 * hidden * inner
    encoder = r["model.layers"] * (4 * projection + feed_forward) * source
    # Queries and results of both attentions, keys and values of its own, are of the target; the others of the source.
    decoder = r["model.decoder_layers"] * ((6 * projection + feed_forward) * target + 2 * projection * source)
    head_products = hidden * r["model.vocab_size"] * target
    attended = (attention(r["model.layers"], heads, head, source, source)
                + attention(r["model.decoder_layers"], heads, head, target, target)
                + attention(r["model.decoder_layers"], heads, head, target, source))
    return TRAINED * 2 * (encoder + decoder + head_products), attended


def patches_flops(r, fused):
    """ViT; DeepViT's attention consists of products and mixes its heads."""
    hidden, heads = r["model.hidden_size"], r["model.heads"]
    patches = (r["model.image_size"] // r["model.patch_size"]) ** 2
    tokens = patches + 1  # the class token
    projected = patches * r["model.channels"] * r["model.patch_size"] ** 2 * hidden
    blocks = r["model.layers"] * tokens * (4 * hidden * hidden + 2 * hidden * r["model.intermediate_size"])
    products = OF_IMAGES * 2 * projected + TRAINED * 2 * (blocks + hidden * r["model.classes"])
    attended = attention(r["model.layers"], heads, hidden // heads, tokens, tokens)
    if fused:
        return products, attended
    return products + TRAINED * (attended + r["model.layers"] * 2 * tokens * tokens * heads * heads), 0


def cnn_flops(r):
    """The MNIST tutorial's: convolutions of 3 x 3 to 32 and 64 channels, pooled by 2 x 2, two linear layers over 128."""
    side, channels, classes = r["model.image_size"], r["model.channels"], r["model.classes"]
    first = (side - 2) ** 2 * 32 * channels * 9
    second = (side - 4) ** 2 * 64 * 32 * 9
    linear = ((side - 4) // 2) ** 2 * 64 * 128 + 128 * classes
    return OF_IMAGES * 2 * first + TRAINED * 2 * (second + linear), 0


class Tests(product.Case):
    def planned(self, recipe, *words, code=0):
        return json.loads(self.command(product.ECHELON, "plan", recipe, *words, "--json", code=code).out)

    def smoke(self):
        return RECIPES / "smoke.yaml"

    # -- against real runs

    def forecast_json(self):
        return json.loads((self.folder / "run" / "forecast.json").read_text())

    def measured_of(self, recipe, ranks, overrides):
        """(what a run measured, what plan says of the same recipe)."""
        words = [RECIPES / f"{recipe}.yaml", "run.dir=run", *TWO_STEPS, *overrides]
        self.train(*words, ranks=ranks)
        measured = self.forecast_json()["measured"]
        line = self.metrics()[-1]
        self.assertEqual(2, measured["step"])
        self.assertGreaterEqual(line["sent_bytes"], measured["sent_bytes"], "the largest of all ranks")
        self.assertGreaterEqual(line["tensor_peak_bytes"], measured["memory"]["tensor_peak_bytes"])
        product.shutil.rmtree(self.folder / "run")
        return measured, self.planned(*words, "--gpus-per-node", ranks)

    def error(self, predicted, measured, what):
        """Relative; what was measured as nothing must be predicted as nothing."""
        if measured == 0:
            self.assertEqual(0, predicted, what)
            return 0
        return predicted / measured - 1

    def compare(self, name, measured, predicted, fewer_threads=None):
        """{figure: relative error}. Where threads compute beside each other, the prediction is that all of them need their
        temporaries at once, at most: then `fewer_threads`, the plan for one thread, is about the least."""
        self.assertEqual(predicted["traffic"]["sent_bytes"], measured["sent_bytes"], f"{name}: bytes sent")
        self.assertEqual(predicted["traffic"]["sent_bytes"], sum(predicted["traffic"]["by_operation"].values()), name)
        of_run, least = measured["memory"], (fewer_threads or predicted)["memory"]
        errors = {}
        self.assertEqual(set(of_run["categories"]), set(predicted["memory"]["categories"]))
        figures = {**of_run["categories"], "tensor_peak_bytes": of_run["tensor_peak_bytes"]}
        for figure, value in figures.items():
            most = {**predicted["memory"]["categories"], **predicted["memory"]}[figure]
            lowest = {**least["categories"], **least}[figure]
            errors[figure] = self.error(most, value, f"{name}: {figure}")
            if value:
                less = 0.1 if fewer_threads else 0.02
                self.assertLessEqual(lowest / value - 1, less, f"{name}: {figure} is {value}, at least {lowest} was predicted")
                more = OF_ONEDNN if figure in ("activations", "tensor_peak_bytes") else 0.02
                self.assertGreaterEqual(most / value - 1, -more, f"{name}: {figure} is {value}, {most} was predicted")
        return errors

    def compare_runs(self, wanted, least, least_of_all):
        """Those of the table whose recipe is `wanted`; at least so many of the share and of the long form."""
        errors = {}
        for name, (recipe, ranks, overrides) in {**SHARE, **(MORE if LONG_FORM else {})}.items():
            if not wanted(recipe):
                continue
            with self.subTest(name):
                measured, plan = self.measured_of(recipe, ranks, overrides)
                one_thread = ["run.dir=run", *TWO_STEPS, *overrides, "train.threads_per_rank=1", "--gpus-per-node", ranks]
                several = "train.threads_per_rank=2" in overrides
                errors[name] = self.compare(name, measured, plan,
                                            self.planned(RECIPES / f"{recipe}.yaml", *one_thread) if several else None)
                if off := {figure: f"{error:+.4%}" for figure, error in errors[name].items() if error}:
                    print(f"{name} ({recipe}, {ranks} ranks {' '.join(overrides)}): {off}")
        every = [abs(error) for found in errors.values() for error in found.values()]
        exact = sum(not any(found.values()) for found in errors.values())
        print(f"{len(errors)} runs, {exact} of them to the byte; median error {statistics.median(every):.4%}")
        self.assertLessEqual(statistics.median(every), 0.01)
        self.assertGreaterEqual(len(errors), least_of_all if LONG_FORM else least)

    def test_memory_and_traffic_are_those_of_real_runs_of_llama(self):
        self.compare_runs(lambda recipe: recipe in ("llama_smoke", "lora_smoke", "smoke"), 11, 41)

    def test_memory_and_traffic_are_those_of_real_runs_of_other_models(self):
        self.compare_runs(lambda recipe: recipe not in ("llama_smoke", "lora_smoke", "smoke"), 4, 25)

    def test_files_of_data_need_not_be_there(self):
        """What is planned without the data is what a run on them needs, if its samples are as long as they may be."""
        recipe = self.recipe(**{**product.ON_TOKENS, "train.steps": 2, "schedule.warmup_steps": 0})
        before = self.planned(recipe)
        self.prepare()
        self.train(recipe)
        self.compare("token files", self.forecast_json()["measured"], before)

    def test_pairs_of_answers_need_what_is_planned_without_them(self):
        """Two answers of 28 tokens fill a sample."""
        recipe = self.recipe(**{"data.kind": "preference", "data.path": "data/train.tok", "data.seq_len": 56, "model.max_positions": 56,
                                "model.vocab_size": 262, "train.steps": 2, "schedule.warmup_steps": 0})
        before = self.planned(recipe)
        chat_folder.write(self.folder / "hf")
        line = json.dumps({"prompt": "alpha", "chosen": "yes", "rejected": "nay"})
        (self.folder / "pairs.jsonl").write_text(f"{line}\n" * 40)
        self.command(product.ECHELON, "prepare", "pairs.jsonl", "--format", "preference", "--tokenizer", "hf", "-o", "data",
                     "--validation-fraction", 0)
        self.train(recipe)
        self.compare("pairs of answers", self.forecast_json()["measured"], before)

    # -- against a count by hand

    def flops(self, recipe, *words):
        """(FLOPs of products, of attention in forward and in backward) of a planned step."""
        plan = self.planned(recipe, *words, "--gpu", "h100")
        done = {"attention": 0, "attention_backward": 0, "products": 0}
        for operation in plan["operations"]:
            name = operation["name"] if operation["name"] in done else "products"
            done[name] += operation["flops"]
        self.assertAlmostEqual(1, sum(done.values()) / plan["flops"]["done"], delta=1e-9)
        self.assertAlmostEqual(1, plan["done_tflops_per_rank"] * 1e12 * plan["step_time_s"] / plan["flops"]["done"], delta=1e-9)
        return done["products"], done["attention"], done["attention_backward"]

    def count(self, keys, by_hand, *overrides, samples=4):
        """`samples`: of one rank and step."""
        (self.folder / "recipe.yaml").write_text(product.yaml_text(
            {"precision.preset": "bf16", "train.micro_batch_size": 2, "train.global_batch_size": 4, **keys}))
        products, attended = by_hand
        for expected, recorded, what in zip((products, attended, 2.5 * attended), self.flops("recipe.yaml", *overrides),
                                            ("products", "attention", "attention in backward")):
            self.assertAlmostEqual(1, recorded / (samples * expected) if expected else 1 + recorded, delta=1e-9,
                                   msg=f"{keys}: {what}: {recorded} is recorded, {samples * expected} counted")

    def test_flops_are_those_of_a_count_by_hand(self):
        for kv_heads in (6, 2, 1):
            llama = {**TEXT, "model.kind": "llama", "model.kv_heads": kv_heads}
            self.count(llama, llama_flops(llama, kv_heads))
        self.count({**TEXT, "model.kind": "gpt2"}, gpt2_flops(TEXT))
        self.count(T5, t5_flops(T5))
        self.count({**IMAGES, "model.kind": "vit"}, patches_flops(IMAGES, fused=True))
        self.count({**IMAGES, "model.kind": "deepvit"}, patches_flops(IMAGES, fused=False))
        self.count(CNN, cnn_flops(CNN))

    def test_flops_of_passes_and_ranks_add_up(self):
        llama = {**TEXT, "model.kind": "llama", "model.kv_heads": 2}
        by_hand = llama_flops(llama, 2)
        for ranks, batch in ((1, 14), (2, 20), (4, 8)):
            self.count(llama, by_hand, f"train.global_batch_size={batch}", "--gpus-per-node", ranks, samples=batch / ranks)

    def test_full_recomputation_adds_one_forward_of_the_blocks(self):
        llama = {**TEXT, "model.kind": "llama", "model.kv_heads": 2}
        self.count(llama, llama_flops(llama, 2))
        products, attended, backward = self.flops("recipe.yaml")
        again, attended_again, backward_again = self.flops("recipe.yaml", "activation_checkpointing.policy=full")
        head = 2 * 4 * TEXT["model.hidden_size"] * TEXT["model.vocab_size"] * TEXT["data.seq_len"]
        self.assertAlmostEqual(1, (again - products) / (products / 3 - head), delta=1e-9)
        self.assertEqual((2 * attended, backward), (attended_again, backward_again))

    # -- sizes

    def test_a_trillion_parameters_take_little_memory(self):
        for name, parameters, batch, code in (("gpt_175b", 174_601_101_312, 20480, 0), ("gpt_1t", 1_008_008_038_400, 4096, 2)):  # it does not fit
            plan = self.planned(RECIPES / f"{name}.yaml", f"train.global_batch_size={batch}", "--nodes", 128,
                                "--gpus-per-node", 8, "--gpu", "h100", code=code)
            self.assertEqual((parameters, 1024, 8), (plan["parameters"], plan["ranks"], plan["ranks_per_node"]))
            kept = plan["memory"]["categories"]
            self.assertLess(abs(kept["weights"] / (4 * parameters / 1024) - 1), 0.001)
            self.assertGreater(plan["traffic"]["network_bytes"], 0)
            self.assertTrue(0 < plan["mfu"] < plan["hfu"] < 1, plan)
            self.assertGreater(plan["step_time_s"], plan["busy_s"]["compute"])
            self.assertGreater(plan["memory"]["peak_bytes"], plan["memory"]["tensor_peak_bytes"])
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, 500e6, "of the largest command")

    # -- what it writes

    def test_text_and_json_have_the_same_numbers(self):
        words = [self.smoke(), "--gpus-per-node", 2]
        text, plan = self.command(product.ECHELON, "plan", *words).out, self.planned(*words)
        kept = plan["memory"]["categories"]
        total = sum(kept[name] for name in ("weights", "gradients", "optimizer", "averaged"))
        self.assertEqual(16 * 131_456, total * 2, "fp32 masters, gradients and two averages, each unit padded")
        found = re.search(r"(?m)^  kept: weights ([\d.]+) KiB, gradients ([\d.]+) KiB, optimizer ([\d.]+) KiB; "
                          r"together ([\d.]+) MiB$", text)
        for name, shown in zip(("weights", "gradients", "optimizer"), found.groups()):
            self.assertAlmostEqual(kept[name] / 2**10, float(shown), delta=0.051)
        self.assertAlmostEqual(total / 2**20, float(found[4]), delta=0.051)
        self.assertIn("\ntime: ", text)
        self.assertNotIn("\nstep: ", text)
        self.assertNotIn("step_time_s", plan)

    def test_the_document_lists_every_key(self):
        def keys(value, path):
            if isinstance(value, dict) and path not in ("traffic.by_operation",):
                return set().union(*(keys(below, f"{path}.{name}".lstrip(".")) for name, below in value.items()))
            return {path}
        text = (product.TOP / "docs" / "plan.md").read_text()
        always, with_time = re.findall(r"\| key \| value \|\n\|---\|---\|\n((?:\|.*\n)+)", text)

        def listed(table):
            found, group = set(), ""
            for name in re.findall(r"`([a-z_.]+)`", "\n".join(row.split("|")[1] for row in table.splitlines())):
                group = group if name.startswith(".") else name.rpartition(".")[0]
                found.add(group + name if name.startswith(".") else name)
            return found
        words = [self.smoke(), "--gpus-per-node", 2]
        self.assertEqual(listed(always), keys(self.planned(*words), ""))
        self.assertEqual(listed(always) | listed(with_time), keys(self.planned(*words, "--gpu", "h100"), ""))

    def test_the_documents_example_is_what_it_prints(self):
        text = (product.TOP / "docs" / "plan.md").read_text()
        command, shown = re.search(r"```console\n\$ echelon (.*)\n((?:.*\n)*?)```", text).groups()
        words = [product.TOP / word if word.endswith(".yaml") else word for word in command.split()]
        self.assertEqual(shown, self.command(product.ECHELON, *words).out, "put what it prints now into docs/plan.md")

    def test_timeline_and_picture_are_what_their_readers_take(self):
        plan = self.planned(self.smoke(), "--gpus-per-node", 2, "--gpu", "h100", "--timeline", "t.json", "--picture", "p.svg")
        events = json.loads((self.folder / "t.json").read_text())["traceEvents"]
        lanes = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
        self.assertEqual(["host", "compute", "copy", "gather", "reduce"], [lanes[number] for number in sorted(lanes)])
        spans = [event for event in events if event["ph"] == "X"]
        drawn = {lanes[span["tid"]] for span in spans}
        self.assertLessEqual({"compute", "gather", "reduce"}, drawn)
        for name in ("compute", "copy", "gather", "reduce"):
            of_lane = [span for span in spans if lanes[span["tid"]] == name]
            for one, other in zip(of_lane, of_lane[1:]):
                self.assertLessEqual(one["ts"] + one["dur"], other["ts"] + 1e-3, f"{name} does one thing at a time")
            # Both passes of the step are drawn.
            # Spans are told to the nanosecond.
            drawn_s = sum(span["dur"] for span in of_lane) / 1e6
            self.assertAlmostEqual(plan["busy_s"][name], drawn_s, delta=1e-9 + 0.5e-9 * len(of_lane))
        self.assertLessEqual(max(span["ts"] + span["dur"] for span in spans), plan["step_time_s"] * 1e6 + 1e-3)
        picture = xml.etree.ElementTree.parse(self.folder / "p.svg").getroot()
        self.assertEqual("{http://www.w3.org/2000/svg}svg", picture.tag)
        texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        self.assertTrue(any(text.startswith("smoke: one step on NVIDIA H100") for text in texts), texts)
        self.assertGreater(len(list(picture.iter("{http://www.w3.org/2000/svg}rect"))), 5)

    def test_more_than_a_rank_has_does_not_fit(self):
        needs = self.planned(self.smoke())["memory"]["peak_bytes"]
        for limit, fits in ((needs / 2, False), (needs * 2, True)):
            plan = self.planned(self.smoke(), "--memory", f"{int(limit)}B", code=0 if fits else 2)
            self.assertEqual((fits, int(limit)), (plan["fits"], plan["memory"]["limit_bytes"]))
        self.assertIn("of 1.0 MiB: does NOT fit",
                      self.command(product.ECHELON, "plan", self.smoke(), "--memory", "1MiB", code=2).out)
        words = [RECIPES / "llama_8b.yaml", "--gpus-per-node", 8, "--gpu", "h100"]
        self.assertFalse(self.planned(*words, "--memory", "1GiB", code=2)["fits"])
        self.assertTrue(self.planned(*words)["fits"])

    def stopped_when(self, condition, *words):
        """What a run that is stopped once its forecast.json is as wanted has told."""
        process = self.start(*self.train_command(*words))
        there = lambda: (self.folder / "run/forecast.json").exists() and condition(self.forecast_json())
        self.wait_for("forecast.json", lambda: process.poll() is not None or there())
        self.stop(process)
        return self.stderr_of_started()

    def test_a_run_is_planned_by_another_process_once(self):
        words = [self.recipe(), "train.steps=1000000", *product.ALWAYS_CONSTANT, "metrics.every_steps=50",
                 "checkpoint.every_steps=50", "checkpoint.keep_last=1"]
        told = self.stopped_when(lambda forecast: forecast["predicted"], *words)
        planned, forecast = self.planned(*words), self.forecast_json()
        for part in ("parameters", "units", "batch", "traffic", "flops", "checkpoint"):
            self.assertEqual(planned[part], forecast["predicted"][part], part)
        self.assertEqual(planned["memory"]["categories"], forecast["predicted"]["memory"]["categories"])
        self.assertRegex(told, r"predicted and measured: all tensors \S+ \w+ and \S+ \w+, sent in a step \S+ \w+ and \S+ \w+\n")
        self.check_the_save_that_was_forecast(told)
        forecast["predicted"]["flops"] = -1
        (self.folder / "run/forecast.json").write_text(json.dumps(forecast))
        self.stopped_when(lambda later: later["measured"]["step"] != forecast["measured"]["step"], *words)
        self.assertEqual(-1, self.forecast_json()["predicted"]["flops"], "a start takes the forecast that is there")

    def test_a_stop_while_the_forecast_is_made_is_no_fault_of_it(self):
        """Slurm sends its signal to every process of a job."""
        process = self.start(*self.train_command(self.recipe(), "train.steps=1000000", *product.ALWAYS_CONSTANT))
        for pid in self.wait_for("the forecast", lambda: process.poll() is None and product.descendants(process.pid)):
            os.kill(pid, signal.SIGTERM)
        self.stop(process)
        self.assertNotIn("no forecast", self.stderr_of_started())

    def check_the_save_that_was_forecast(self, told):
        """Where it is far off it is only in the log of the rank, with a reason."""
        noted = (self.folder / "run/logs/rank-0.log").read_text()
        pattern = r"predicted and measured: a save ([\d.]+ \w+) and ([\d.]+ \w+), of which training waits ([\d.]+ \w+) and ([\d.]+ \w+)(.*)"

        def seconds(text):
            return float(text.split()[0]) * {"ms": 1e-3, "s": 1}[text.split()[1]]
        *times, why = re.search(pattern, noted).groups()
        save, saved, stall, stalled = map(seconds, times)
        if any(max(pair) > 2.1 * min(pair) for pair in ((save, saved), (stall, stalled))):  # of rounded numbers
            self.assertIn("; a save is predicted from its bytes and an assumed disk", why)
        self.assertEqual(not why, re.search(pattern, told) is not None)

    # -- what would fit

    def fit(self, *words, **more):
        """What `--fit` finds for a recipe that needs too much."""
        found = self.planned(*words, "--fit", **more)
        self.assertFalse(found["as_it_is"]["fits"])
        return found

    def test_each_change_that_fit_proposes_fits_with_room(self):
        recipe = [RECIPES / "llama_smoke.yaml", "model.vocab_size=8192", "model.max_positions=512", "data.seq_len=512",
                  "train.micro_batch_size=16", "train.global_batch_size=32"]
        for ranks in (1, 2):
            words = [*recipe, "--tasks-per-node", ranks]
            limit = int(0.85 * self.planned(*words)["memory"]["peak_bytes"])
            room = f"{limit}B"
            found = self.fit(*words, "--memory", room)
            self.assertTrue(found["proposals"], found)
            for proposal in found["proposals"][:3]:
                changed = self.planned(*words, *proposal["overrides"], "--memory", room)
                self.assertTrue(changed["fits"], proposal)
                self.assertLess(changed["memory"]["peak_bytes"], 0.95 * limit)
                self.assertTrue(proposal["overrides"])
                if ranks == 1:
                    self.assertNotIn("shard.strategy", " ".join(proposal["overrides"]), "is the same on one rank")

    def test_fit_of_what_fits_nowhere_tells_by_how_much(self):
        found = self.fit(self.smoke(), "--memory", "1MiB", code=2)
        self.assertEqual([], found["proposals"])
        self.assertLess(found["nearest"]["peak_bytes"], found["as_it_is"]["peak_bytes"])
        said = self.command(product.ECHELON, "plan", self.smoke(), "--memory", "1MiB", "--fit", code=2).out
        told = re.search(r"nothing that was tried fits; least memory, ([0-9.]+) MiB too much", said)
        self.assertTrue(told, said)
        # Of two processes that plan: what a program and its libraries take differs a little each time.
        missing = (found["nearest"]["peak_bytes"] - found["as_it_is"]["limit_bytes"]) / 2**20
        self.assertAlmostEqual(missing, float(told[1]), delta=16)

    def test_a_change_with_offload_tells_what_it_takes_of_each_host(self):
        words = [RECIPES / "llama_8b.yaml", "train.global_batch_size=2", "--gpus-per-node", 2, "--gpu", "a100-40g"]
        best = self.fit(*words)["proposals"][0]
        self.assertIn("shard.offload=cpu", best["overrides"])
        needs = self.planned(*words, *best["overrides"])["memory"]["host_peak_bytes"]
        self.assertEqual(2 * needs, best["node_host_bytes"])
        said = self.command(product.ECHELON, "plan", *words, "--fit").out
        self.assertIn(f", {needs * 2 / 2**30:.1f} GiB of each node's host memory: shard.offload=cpu", said)

    # -- what it refuses

    def refused(self, *words, **more):
        self.expect(2, product.ECHELON, "plan", self.smoke(), *words, **more)

    def test_an_unknown_device(self):
        self.refused("--gpu", "h1000")

    def test_a_device_of_two_sizes_and_a_memory_without_a_unit(self):
        self.refused("--gpu", "A100")
        self.refused("--memory", "16")

    def test_an_unknown_network(self):
        self.refused("--nodes", 2, "--gpu", "h100", "--network", "ethernet")

    def test_a_picture_of_unknown_times(self):
        self.refused("--timeline", "t.json")
        self.refused("--picture", "p.svg")
        self.assertEqual([], list(self.folder.iterdir()))

    def test_a_picture_in_place_of_the_recipe(self):
        recipe = self.recipe()
        for option in ("--timeline", "--picture"):
            result = self.command(product.ECHELON, "plan", recipe, "--gpu", "h100", option, recipe, code=2)
            self.assertIn("is what the command reads", result.err)

    def test_tokens_of_a_model_of_images(self):
        self.expect(2, product.ECHELON, "plan", product.TOP / "recipes/mnist_smoke.yaml", "--gpu", "h100", "--tokens", 1e9, "--days", 1)

    def test_ranks_that_do_not_divide_the_batch(self):
        self.refused("--nodes", 3)

    def profile(self, change):
        """A file with the profile of the H100, changed."""
        profile = json.loads((product.TOP / "src/forecast/data/devices.json").read_text())["h100"]
        profile["name"] = "mine"
        change(profile)
        (self.folder / "mine.json").write_text(json.dumps(profile))
        return "mine.json"

    def test_a_profile_of_ones_own(self):
        def slower(profile):
            profile["title"] = "half of it"
            for flops in profile["flops"].values():
                flops["value"] /= 2
        words = [RECIPES / "llama_8b.yaml", "--nodes", 4, "--gpus-per-node", 8, "--gpu"]
        mine, h100 = self.planned(*words, self.profile(slower)), self.planned(*words, "h100")
        self.assertEqual("half of it", mine["device"])
        self.assertTrue(1.5 < mine["step_time_s"] / h100["step_time_s"] < 2, mine["step_time_s"])

    def test_times_of_its_own_devices_are_said_to_be_unproven(self):
        own = self.profile(lambda profile: None)
        for words, said in ((["--gpu", "H100"], True), (["--gpu", "h100", "--fit"], True),
                            (["--gpu", own], False), (["--gpu", own, "--fit"], False), ([], False)):
            out = self.command(product.ECHELON, "plan", self.smoke(), *words).out
            self.assertEqual(said, "forecast; compared with runs on one H100 only" in out, words)

    def test_faults_of_a_profile_are_named_at_once(self):
        def break_it(profile):
            del profile["launch_s"]
            profile["achieved"]["product"]["value"] = 1.5
            profile["memory_bytes"]["value"] = -1e300
            profile["flops"]["bf16"] = "many"
            profile["colour"] = "green"
        self.refused("--gpu", self.profile(break_it), hide="(?<=expected only ).*")

    def test_a_profile_that_is_none(self):
        (self.folder / "torn.json").write_text('{"name": "mine",')
        self.refused("--gpu", "torn.json")
        self.refused("--gpu", "nowhere/h100.json")


if __name__ == "__main__":
    product.main()
