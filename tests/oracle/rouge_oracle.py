"""ROUGE scores of random and of awkward texts against the package rouge_score, without its stemmer."""
import argparse
import json
import random
import subprocess

from rouge_score import rouge_scorer

WORDS = "the cat sat on a mat The Cat, dog-house 3rd 1,000 don't ÄPFEL naïve x".split()
AWKWARD = ["", " ", "...", "a", "A b\tc\nd", "a a a a", "a b a b a", "İstanbul 300 K or 300 K", "ΣΑΣ ß straße", "日本語 text 日本",
           "x" * 2000, "e\u0301te\u0301", "a_b-c.d", "\u00a0nbsp\u2003em", "ﬁne ﬃ ①②", "0 00 000"]


def pairs():
    draw = random.Random(5)
    yield from ((a, b) for a in AWKWARD for b in AWKWARD)
    for _ in range(500):
        texts = ["".join(draw.choice(WORDS) + draw.choice([" ", "  ", ", ", ". ", "\n"])
                         for _ in range(draw.randrange(60))) for _ in range(2)]
        yield tuple(texts)
    letters = [chr(c) for c in (*range(32, 600), 0x212A, 0x130, 0x1F600)]  # what lower case makes of them
    for _ in range(300):
        yield tuple("".join(draw.choices(letters, k=draw.randrange(80))) for _ in range(2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scores")
    cases = list(pairs())
    done = subprocess.run([parser.parse_args().scores], input=json.dumps(cases), capture_output=True, text=True,
                          check=True, timeout=120)
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    wrong = []
    for (generated, reference), found in zip(cases, json.loads(done.stdout), strict=True):
        expected = scorer.score(target=reference, prediction=generated)
        right = [expected[name].fmeasure for name in ("rouge1", "rouge2", "rougeL")]
        if not all(abs(a - b) <= 1e-12 for a, b in zip(found, right)):
            wrong.append((generated, reference, found, right))
    print(f"{len(cases) - len(wrong)} of {len(cases)} pairs of texts score the same")
    if wrong:
        raise SystemExit(f"differs: {wrong[:3]}")


if __name__ == "__main__":
    main()
