"""Writes the same random pairs as CSV, by Python's csv module, and as JSONL: python3 write_pairs.py CSV JSONL"""
import csv
import json
import random
import sys

ALPHABET = ['"', '""', ",", "\n", "\r\n", "a", "word ", "größer", "日本", "😀", "'", ";", "\t", " "]


def main():
    chance = random.Random(5)
    with open(sys.argv[1], "w", encoding="utf-8-sig", newline="") as rows, open(sys.argv[2], "w", encoding="utf-8") as lines:
        writer = csv.writer(rows, quoting=csv.QUOTE_MINIMAL)
        writer.writerow(["headline", "title, short", "text"])
        for number in range(2000):
            text, headline = ("x" + "".join(chance.choice(ALPHABET) for _ in range(chance.randrange(60))) for _ in range(2))
            writer.writerow([headline, f"title {number}", text])
            lines.write(json.dumps({"text": text, "headline": headline}, ensure_ascii=chance.random() < 0.5) + "\n")


if __name__ == "__main__":
    main()
