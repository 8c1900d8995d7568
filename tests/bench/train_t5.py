"""Step time and peak memory of T5 small on two CPU ranks, beside PyTorch FSDP1 with transformers' T5 in the same run.

`full`: every source has 512 and every target 150 tokens. `varied`: lengths as those of WikiHow clipped to that; the
peer pads them, as the tutorial does. Ratios are taken pair by pair, as in train_llama.py.
"""
import argparse
import statistics

from train_llama import TUNED_MALLOC, compare, echelon, peer

VARIANTS = {"full": (["data.full_length=true"], []), "varied": ([], ["--varied"])}


def describe(name, results):
    step = statistics.median(r["step_s"] for r in results)
    rss = max(r["peak_rss_bytes"] for r in results) / 2**30
    print(f"{name:<28} {step:7.2f} s/step {rss:6.2f} GiB a rank")


def measure(args, variant):
    overrides, options = VARIANTS[variant]
    ours, plain, tuned = [], [], []
    for _ in range(args.repeat):
        ours.append(echelon(args, "tests/bench/t5_small.yaml", [f"train.global_batch_size={4 * args.ranks}", *overrides]))
        plain.append(peer(args, "fsdp1_t5.py", options, {}))
        tuned.append(peer(args, "fsdp1_t5.py", options, TUNED_MALLOC))
    print(f"--- {variant}")
    describe("Echelon", ours)
    describe("FSDP1", plain)
    describe("FSDP1, malloc tuned", tuned)
    compare("FSDP1", ours, plain)
    compare("FSDP1, malloc tuned", ours, tuned)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--echelon", required=True)
    parser.add_argument("--python", required=True, help="an interpreter that has torch and transformers")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    args = parser.parse_args()
    for variant in args.variants:
        measure(args, variant)


if __name__ == "__main__":
    main()
