"""datasets.map with a fast tokenizer of transformers: prints the tokens, and the seconds from JSON lines to an Arrow file.

usage: datasets_map.py LINES TOKENIZER_JSON THREADS CACHE"""
import json
import os
import sys
import time

lines, tokenizer_file, threads, cache = sys.argv[1:]
os.environ.update(RAYON_NUM_THREADS=threads, TOKENIZERS_PARALLELISM="true", HF_HUB_OFFLINE="1")

import datasets
from transformers import PreTrainedTokenizerFast

datasets.disable_progress_bars()
tokenizer = PreTrainedTokenizerFast(tokenizer_file=tokenizer_file)


def tokenized(rows):
    ids = tokenizer(rows["text"], add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False)["input_ids"]
    return {"input_ids": ids, "count": [len(row) for row in ids]}


begin = time.perf_counter()
read = datasets.load_dataset("json", data_files=lines, split="train", cache_dir=cache)
made = read.map(tokenized, batched=True, remove_columns=read.column_names)
seconds = time.perf_counter() - begin
print(json.dumps({"tokens": sum(made["count"]), "seconds": seconds}))
