"""Tokenizers of bytes that the package `tokenizers` trains."""
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

ALPHABET = pre_tokenizers.ByteLevel.alphabet()
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
UNSPLIT = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)


def split_by(expression):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"), UNSPLIT])


def train(words, texts, size, special=("<|endoftext|>",), alphabet=ALPHABET, normalizer=None, **model):
    """`words`: what splits a text; `model`: keys of a BPE."""
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = words
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False,
                                                             initial_alphabet=alphabet))
    return tokenizer
