"""Texts to train on and items to score, out of Python sources inside the torch package."""
import pathlib
import random

import torch

LEARNED = "optim/ada[dgm]*[adx].py"  # much alike, so that a small model knows much of them
CHOICES = 520
EXACT = 520
FOREIGN = ("größe", "naïve", "日本語", "π ≈ 3.14", "→ ∞", "🙂", "e\u0301")
ENDS = (" ", "   ", "\n", "\n    ", "\t", " \n\n", "\u00a0", "\u2003", "\u3000")  # white space behind a context
LETTERS = ("A", "B", "C", "D")


def sources(pattern):
    return [path.read_text() for path in sorted(pathlib.Path(torch.__file__).parent.glob(pattern))]


def documents():
    """Blocks between blank lines, so that the model learns where a text ends."""
    return [block.strip("\n") for text in sources(LEARNED) for block in text.split("\n\n") if block.strip()]


class Items:
    """Items of both kinds, the same in every call."""

    def __init__(self):
        self.draw = random.Random(5)
        self.files = [text.splitlines() for text in sources(LEARNED)]
        others = {line.strip() for text in sources("nn/modules/*.py") for line in text.splitlines()}
        self.lines = sorted(line for line in others if len(line) > 2)

    def place(self):
        """Lines of one file, at a line that is worth guessing: (those before it, the line)."""
        while True:
            lines = self.draw.choice(self.files)
            at = self.draw.randrange(1, len(lines))
            if len(lines[at].strip()) > 2:
                return lines[max(0, at - self.draw.randint(1, 6)):at], lines[at]

    def wrong(self, count):
        return [self.draw.choice(self.lines)[:self.draw.choice((4, 12, 30, 90))] for _ in range(count)]

    def changed(self, choices):
        """Choices of which some have another number of bytes than of characters, or white space in front."""
        kind = self.draw.randrange(6)
        if kind == 0:
            return [f"{choice}  # {self.draw.choice(FOREIGN)}" if self.draw.random() < 0.6 else choice for choice in choices]
        if kind == 1:
            return [f"{self.draw.choice(FOREIGN)} {choice}" for choice in choices]
        if kind == 2:
            return [" " * self.draw.randint(0, 2) + choice for choice in choices]
        return choices

    def next_line(self):
        before, right = self.place()
        texts = self.changed([right.strip(), *self.wrong(self.draw.choice((1, 2, 3, 3, 3, 4)))])
        order = self.draw.sample(range(len(texts)), len(texts))
        context = "\n".join(before).rstrip()
        kind = self.draw.randrange(5)
        if kind == 0:
            context = ""
        elif kind < 4 and context:  # the harness fails where there is nothing but white space
            context += self.draw.choice(ENDS)
        return {"context": context, "choices": [texts[i] for i in order], "answer": order.index(0)}

    def letters(self):
        """As mmlu asks: single tokens, of one context."""
        before, right = self.place()
        texts = [right.strip(), *self.wrong(3)]
        order = self.draw.sample(range(4), 4)
        lines = [f"{letter}. {texts[i]}" for letter, i in zip(LETTERS, order)]
        return {"context": "\n".join([*before, *lines, "Answer:"]), "choices": list(LETTERS), "answer": order.index(0)}

    def twice(self):
        """Two choices are one text: the first of them is the answer that can be right."""
        item = self.next_line()
        item["choices"].append(item["choices"][item["answer"]])
        if self.draw.random() < 0.5:
            item["answer"] = len(item["choices"]) - 1  # never right
        return item

    def choices(self):
        items = [self.letters() if i % 4 == 0 else self.twice() if i % 13 == 1 else self.next_line() for i in range(CHOICES)]
        return [{**item, "id": i} for i, item in enumerate(items)]  # a member that is of no use

    def exact(self, shortened):
        """The prompt stops within a line, of which the model writes the rest or, as far as its tokens go, shortened(rest)."""
        items = []
        while len(items) < EXACT:
            before, line = self.place()
            cut = max(1, len(line) - self.draw.choice((0, 1, 2, 3, 5, 9, 16, 30, 50)))
            prompt = "\n".join([*before, line[:cut]])
            answers = [line[cut:], shortened(line[cut:]), *(("",) if self.draw.random() < 0.1 else ())]
            items.append({"prompt": prompt, "answers": [f"{' ' * self.draw.randint(0, 2)}{answer}\n" for answer in answers]})
        return items

    def assigned(self, until):
        """For --after "=": the model writes the sign and a value or, in some lines, neither and so no answer."""
        items = []
        while len(items) < EXACT:
            before, line = self.place()
            name, sign, rest = line.partition("=")
            if not sign:
                name, rest = line[:-6], line[-6:]
            if name.strip() and (sign or self.draw.random() < 0.2):
                text = rest[:min([rest.find(end) for end in until if end in rest], default=len(rest))]
                items.append({"prompt": "\n".join([*before, name.rstrip() if sign else name]),
                              "answers": [self.draw.choice(("None", "False", "True", "1")), f" {text.rpartition('=')[2]} "]})
        return items
