"""Chats prepared as transformers' apply_chat_template(tokenize=True, return_assistant_tokens_mask=True) makes them: the
ids and what is trained, for every template of the wheels with generation tags and own ones, several conversations each.
Prompts of `sample --chat` as add_generation_prompt=True makes them, for every template of the wheels, and answers as those
of transformers' generate()."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import tokenizers
import torch
import transformers
from transformers.utils import chat_template_utils

import chat_template_oracle as templates

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
import token_file
from chat_folder import CHATML

DAY = templates.NOW.strftime("%Y-%m-%d")
OWN = {
    "a space in front": "{% for m in messages %}{% if m.role == 'assistant' %}A: {% generation %}{{ m.content }}"
                        "<|im_end|>{% endgeneration %}\\n{% else %}{{ m.content }}<|im_end|>\\n{% endif %}{% endfor %}",
    "half a word": "{% for m in messages %}{% if m.role == 'assistant' %}un{% generation %}{{ m.content }}</s>"
                   "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}",
}


def conversations():
    """(messages, tools) that a user may have; texts of several bytes a character among them."""
    refused = ("empty", "unknown role", "no content")
    chats = {name: (messages, tools) for name, (messages, tools, _, prompt) in templates.conversations().items()
             if not prompt and name not in refused}
    chats["turns"] = (chats["plain"][0] * 3, None)
    chats["letters"] = ([templates.user("Grüße, 日本!  \n"), templates.assistant("the 🙂 happy\n\n  world")], None)
    return chats


def make_tokenizer(folder, texts):
    """A tokenizer.json of the package `tokenizers` with the special tokens that the templates write."""
    special = sorted({name for text in texts for name in re.findall(r"<\|[\w ]+\|?>|<[\w ]+\|>", text)} | set(templates.TOKENS.values()))
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(texts, vocab_size=1500, special_tokens=special, show_progress=False)
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({**templates.TOKENS, "tokenizer_class": "PreTrainedTokenizerFast"}))
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **templates.TOKENS)


def expected(tokenizer, template, messages, tools):
    """(ids, mask), or None where transformers refuses or the mask says nothing."""
    try:
        made = tokenizer.apply_chat_template(messages, tools=tools, chat_template=template, tokenize=True, return_dict=True,
                                             return_assistant_tokens_mask=True,
                                             tokenizer_kwargs={"return_offsets_mapping": True})
    except Exception:  # whatever a template does
        return None
    mask, offsets = made["assistant_masks"], made["offset_mapping"]
    for at in range(1, len(mask)):  # transformers leaves out all but the first token of a last character of several bytes
        mask[at] |= mask[at - 1] and offsets[at] == offsets[at - 1]
    return (made["input_ids"], mask) if 0 < sum(mask) < len(mask) else None


def shown(tokenizer, ids, mask):
    return " ".join(f"[{token}]" if trained else token for token, trained in zip(tokenizer.convert_ids_to_tokens(ids), mask))


def prepared(echelon, folder, template, chats):
    (folder / "template.jinja").write_text(template)
    (folder / "chats.jsonl").write_text("".join(
        json.dumps({"messages": messages, "tools": tools}) + "\n" for messages, tools in chats))
    ran = subprocess.run([echelon, "prepare", folder / "chats.jsonl", "--format", "chat", "--tokenizer", folder, "--output",
                          folder / "out", "--force", "--chat-template", folder / "template.jinja", "--date", DAY,
                          "--special-in-text", "allow", "--validation-fraction", "0", "--json"], capture_output=True, text=True)
    if ran.returncode != 0:
        raise SystemExit(f"exit {ran.returncode}: {ran.stderr}")
    return token_file.read_chats(folder / "out/train.tok"), json.loads(ran.stdout)["chat"]


def ask(program, folder, cases):
    """What the program tells of (template, messages)."""
    lines = [json.dumps({"template": template, "messages": messages, "variables": templates.TOKENS,
                         "now": int(templates.FixedTime.now().timestamp()), "tokenizer": str(folder / "tokenizer.json")})
             for template, messages in cases]
    out = subprocess.run([program], input="\n".join(lines).encode(), stdout=subprocess.PIPE, check=True).stdout.decode()
    return [json.loads(line) for line in out.split("\n")[:-1]]


def check_prompts(program, tokenizer, folder, wheels):
    """The ids of prompts for the next turn are transformers', or both refuse. Special tokens that are typed are text."""
    def prompt(template, messages, **options):
        try:
            return tokenizer.apply_chat_template(messages, chat_template=template, add_generation_prompt=True, **options)
        except Exception:  # whatever a template does
            return None

    chats = {chat: messages for chat, (messages, tools) in conversations().items() if not tools}
    typed = chats.pop("typed tokens")
    harmless = [{**message, "content": "x"} for message in typed]
    cases = [(template, messages) for template in wheels.values() for messages in chats.values()]
    equal = 0
    for (template, messages), found in zip(cases, ask(program, folder, cases), strict=True):
        ids = prompt(template, messages)
        if found.get("ids") != (list(ids) if ids else None):
            raise SystemExit(f"{messages}\n{template}\nexpected {ids}, found {found}")
        equal += ids is not None
    assert equal > len(cases) / 2, (len(cases), equal)
    special = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
    for template in (CHATML, wheels["trl/qwen3.jinja"]):
        [found] = ask(program, folder, [(template, typed)])
        count = sum(id in special for id in prompt(template, harmless))
        assert sum(id in special for id in found["ids"]) == count < sum(id in special for id in prompt(template, typed))
        assert tokenizer.decode(found["ids"], clean_up_tokenization_spaces=False) == prompt(template, typed, tokenize=False)
    print(f"{len(wheels)} templates of wheels: ids of {equal} prompts equal")


def check_typed(program, folder, texts):
    """A special token that is typed is encoded as by a tokenizer that does not have it, whatever puts spaces in front."""
    sign, typed = "\u2581", "<|typed|>"
    normalizers, splits = tokenizers.normalizers, tokenizers.pre_tokenizers
    kinds = {
        "Llama 2": (normalizers.Sequence([normalizers.Prepend(sign), normalizers.Replace(" ", sign)]), None, {}),
        "Phi-3": (normalizers.Sequence([normalizers.Prepend(sign), normalizers.Replace(" ", sign)]), None, {"rstrip": True}),
        "first": (None, splits.Metaspace(sign, "first", False), {}),
        "always": (None, splits.Metaspace(sign, "always"), {"lstrip": True}),
    }
    messages = [templates.system(f"Say {typed}."), templates.user(f"{typed} or{typed}{typed}x\n{typed}"),
                templates.assistant(f"the {typed} happy"), templates.user("one")]
    for name, (normalizer, split, flags) in kinds.items():
        made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
        made.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.Replace(sign, " "), tokenizers.decoders.ByteFallback(),
                                                     tokenizers.decoders.Fuse(), tokenizers.decoders.Strip(" ", 1, 0)])
        if normalizer:
            made.normalizer = normalizer
        if split:
            made.pre_tokenizer = split
        made.train_from_iterator(texts, tokenizers.trainers.BpeTrainer(
            vocab_size=600, show_progress=False, special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]))
        made.add_special_tokens([tokenizers.AddedToken(token, normalized=False, **flags) for token in ("<|im_start|>", "<|im_end|>")])
        without = tokenizers.Tokenizer.from_str(made.to_str())
        made.add_special_tokens([tokenizers.AddedToken(typed, normalized=False, **flags)])
        made.save(str(folder / "tokenizer.json"))
        text = transformers.PreTrainedTokenizerFast(tokenizer_object=made, **templates.TOKENS).apply_chat_template(
            messages, chat_template=CHATML, add_generation_prompt=True, tokenize=False)
        [found] = ask(program, folder, [(CHATML, messages)])
        expected = without.encode(text, add_special_tokens=False).ids
        assert made.token_to_id(typed) in made.encode(text, add_special_tokens=False).ids
        if found.get("ids") != expected:
            raise SystemExit(f"{name}: {text}\nexpected {expected}, found {found}")
    print(f"{len(kinds)} tokenizers: a special token that is typed is text")


class RandomModel:
    """A small Llama whose answers differ from prompt to prompt, in a folder with a tokenizer and a template. They end with
    `turn_end`, which the template alone names, or with one of the ids in generation_config.json."""

    def __init__(self, folder, tokenizer, template, turn_end):
        torch.manual_seed(1)
        config = transformers.LlamaConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                          num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
                                          initializer_range=0.4, bos_token_id=None)
        self.model = transformers.LlamaForCausalLM(config).eval()
        named = list(range(300, 330))
        with torch.no_grad():
            self.model.lm_head.weight[turn_end] *= 1.6
        self.model.generation_config.eos_token_id = named
        self.model.save_pretrained(folder)
        self.ends = [turn_end, *named]
        (folder / "chat_template.jinja").write_text(template)
        self.tokenizer, self.template, self.folder = tokenizer, template, folder

    def answer(self, messages, count):
        ids = self.tokenizer.apply_chat_template(messages, chat_template=self.template, tokenize=True, add_generation_prompt=True)
        whole = self.model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.int64),
                                    do_sample=False, max_new_tokens=count, eos_token_id=self.ends, pad_token_id=0)[0].tolist()
        end = whole.pop() if whole[-1] in self.ends else None
        return self.tokenizer.decode(whole[len(ids):], skip_special_tokens=True), end

    def sample(self, echelon, lines, *options):
        ran = subprocess.run([echelon, "sample", self.folder, "--chat", *options], input=lines.encode(), capture_output=True)
        if ran.returncode != 0:
            raise SystemExit(f"exit {ran.returncode}: {ran.stderr.decode()}")
        return ran.stdout.decode()


def check_answers(echelon, tokenizer, folder):
    """Prompts of a system and a user, and a conversation of several turns, are answered as transformers does."""
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    model = RandomModel(folder, tokenizer, CHATML, end)
    asked = ["Hello", "What is a word?", "Grüße, 日本!", "one two three", "the end", "a"]
    expected = [model.answer([templates.system("Be brief."), templates.user(text)], 40) for text in asked]
    found = model.sample(echelon, "", "--system", "Be brief.", "--tokens", "40",
                         *(option for text in asked for option in ("--prompt", text)))
    assert found == "".join(text + "\n" for text, _ in expected), (expected, found)
    talk, answers = [], []
    for text in asked[:4]:
        talk.append(templates.user(text))
        answers.append(model.answer(talk, 12))
        talk.append(templates.assistant(answers[-1][0]))
    found = model.sample(echelon, "\n".join([asked[0], "", *asked[1:4]]) + "\n", "--tokens", "12")
    assert found == "".join(text + "\n" for text, _ in answers), (answers, found)
    by_turn, by_name = (sum(test(how) for _, how in expected + answers) for test in
                        (lambda how: how == end, lambda how: how not in (None, end)))
    assert by_turn > 1 and by_name > 1, (by_turn, by_name)
    assert len({text for text, _ in expected + answers}) > 6, "the answers are alike"
    print(f"{len(expected)} answers and {len(answers)} turns of a conversation equal; {by_turn} end with a turn, {by_name} by name")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--echelon", required=True)
    parser.add_argument("--render", required=True, help="the program render_chats")
    arguments = parser.parse_args()
    noon = templates.NOW.replace(hour=12, minute=0, second=0)
    templates.FixedTime.now = classmethod(lambda cls, tz=None: noon)
    chat_template_utils.datetime = templates.FixedTime
    wheels = dict(templates.templates())
    tagged = {name: text for name, text in wheels.items() if re.search(r"\{%-?\s*generation", text)}
    assert len(tagged) >= 5, sorted(tagged)
    compared = 0
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        everything = [*wheels.values(), *OWN.values(), json.dumps(list(conversations().values()), ensure_ascii=False)]
        tokenizer = make_tokenizer(folder, everything)
        for name, template in {**tagged, **OWN}.items():
            cases = {chat: (given, expected(tokenizer, template, *given)) for chat, given in conversations().items()}
            cases = {chat: case for chat, case in cases.items() if case[1]}
            assert cases, name
            found, audit = prepared(arguments.echelon, folder, template, [given for given, _ in cases.values()])
            for (chat, (_, (ids, mask))), (own_ids, own_mask) in zip(cases.items(), found, strict=True):
                if own_ids != list(ids) or own_mask != list(mask):
                    raise SystemExit(f"{name}, {chat}:\nexpected {shown(tokenizer, ids, mask)}\n"
                                     f"found    {shown(tokenizer, own_ids, own_mask)}")
            assert audit["trained_tokens"] == sum(sum(mask) for _, (_, mask) in cases.values()), (name, audit)
            compared += len(cases)
        check_prompts(arguments.render, tokenizer, folder, wheels)
        check_answers(arguments.echelon, tokenizer, folder)
        check_typed(arguments.render, folder, everything)
    print(f"{len(tagged)} templates of wheels, {len(OWN)} own: ids and masks of {compared} conversations equal")


if __name__ == "__main__":
    main()
