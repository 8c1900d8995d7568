"""Writes the same random pairs as CSV, by Python's csv module, as JSONL, and as an array of JSON:
python3 write_pairs.py CSV JSONL JSON"""
import csv
import json
import random
import sys

ALPHABET = ['"', '""', ",", "\n", "\r\n", "a", "word ", "größer", "日本", "😀", "'", ";", "\t", " ", "[", "]", "{", "}", "\\"]


def main():
    chance = random.Random(5)
    pairs = []
    with open(sys.argv[1], "w", encoding="utf-8-sig", newline="") as rows, open(sys.argv[2], "w", encoding="utf-8") as lines:
        writer = csv.writer(rows, quoting=csv.QUOTE_MINIMAL)
        writer.writerow(["headline", "title, short", "text"])
        for number in range(2000):
            text, headline = ("x" + "".join(chance.choice(ALPHABET) for _ in range(chance.randrange(60))) for _ in range(2))
            writer.writerow([headline, f"title {number}", text])
            pairs.append({"text": text, "headline": headline})
            lines.write(json.dumps(pairs[-1], ensure_ascii=chance.random() < 0.5) + "\n")
    with open(sys.argv[3], "w", encoding="utf-8-sig") as array:
        json.dump(pairs, array, ensure_ascii=False, indent=2)


if __name__ == "__main__":
    main()
