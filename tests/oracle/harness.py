"""lm-evaluation-harness in .venv-test/lm_eval: its arithmetic on documents in memory, and the definitions of its tasks.

`datasets` and other large packages are not installed. The harness imports them and calls nothing of them for what is done
here, so that modules stand in for them that fail when something is called.
"""
import contextlib
import importlib.machinery
import logging
import os
import pathlib
import re
import sys
import types

import torch
import transformers  # noqa: F401  before the modules that stand in: it looks for the packages

FOLDER = pathlib.Path(sys.prefix) / "lm_eval"
ABSENT = ("datasets", "datasets.utils", "datasets.utils.metadata", "dill", "pandas", "sacrebleu")


class Absent(types.ModuleType):
    def __init__(self, name):
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None)
        self.__path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def fail(*_args, **_more):
            raise RuntimeError(f"the harness calls {self.__name__}.{name}, which is not installed")
        return fail


sys.modules.update({name: Absent(name) for name in ABSENT})
sys.path.insert(0, str(FOLDER))
from lm_eval.api.task import ConfigurableTask  # noqa: E402
from lm_eval.evaluator import evaluate  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks._yaml_loader import load_yaml  # noqa: E402

logging.getLogger("lm_eval").setLevel(logging.ERROR)
torch.set_num_threads(1)  # several wait for each other more than they compute, beside other tests ten times as long
CLOSE = 1e-4  # scores that differ by less may come in another order elsewhere


class Documents(list):
    """What the harness asks of a `datasets.Dataset`."""

    @property
    def features(self):
        return dict.fromkeys(self[0])

    def map(self, function):
        return Documents({**row, **function(row)} for row in self)


def task(config, rows, examples=()):
    asked, shown = Documents(rows), Documents(examples)
    splits = {"validation": asked, "test": asked, "train": shown, "dev": shown}
    return ConfigurableTask(config={**config, "custom_dataset": lambda **_: splits})


def means(*metrics):
    return [{"metric": metric, "aggregation": "mean", "higher_is_better": True} for metric in metrics]


def choices_task(name, items, before=""):
    """`before`: the text in front of every context."""
    return task({
        "task": name, "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "context",
        "doc_to_choice": "choices", "doc_to_target": "answer", "metric_list": means("acc", "acc_norm", "acc_bytes"),
    }, [{**item, "context": before + item["context"]} for item in items])


def exact_task(name, items, tokens, before="", until=("\n",), after=""):
    rows = [{"prompt": before + item["prompt"], "answers": [text.strip() for text in item["answers"]]} for item in items]
    kept = r"(?s)\A.*" + re.escape(after) + r"(.*)\Z" if after else r"(?s)\A(.*)\Z"  # the filter strips it
    return task({
        "task": name, "test_split": "test", "output_type": "generate_until", "doc_to_text": "prompt", "doc_to_target": "answers",
        "generation_kwargs": {"until": list(until), "max_gen_toks": tokens, "do_sample": False},
        "metric_list": means("exact_match"),
        "filter_list": [{"name": "answer", "filter": [{"function": "regex", "regex_pattern": kept}, {"function": "take_first"}]}],
    }, rows)


def own_config(path):
    """Of a task that comes with the harness, such as piqa/piqa.yaml."""
    return load_yaml(FOLDER / "lm_eval" / "tasks" / path)


def own_task(path, rows, examples):
    """Its first examples come first."""
    return task({**own_config(path), "fewshot_config": {"sampler": "first_n"}}, rows, examples)


class Model(HFLM):
    """The harness's model, which counts the texts of which a token was hardly likelier than another."""
    close = 0

    def _model_generate(self, context, max_length, stop, **more):
        made = super()._model_generate(context, max_length, stop, output_logits=True, return_dict_in_generate=True, **more)
        best = torch.stack([logits.topk(2).values for logits in made.logits])  # steps, texts, 2
        self.close += int(((best[..., 0] - best[..., 1]).amin(0) < CLOSE).sum())
        return made.sequences


def open_model(folder):
    """In fp32, with the tokenizer of the folder."""
    return Model(pretrained=str(folder), device="cpu", dtype="float32", batch_size=32)


def close_choices(samples, length):
    """How many items have two choices that are nearly the best, their scores divided by `length`. Choices of the same text
    have the same score, so that the first is the best everywhere."""
    count = 0
    for sample in samples:
        scores = {text: (answer[0], length(text)) for text, answer in zip(sample["doc"]["choices"], sample["filtered_resps"])}
        best = sorted(scores.values(), key=lambda score: score[0] / score[1])[-2:]
        gap = best[-1][0] / best[-1][1] - best[0][0] / best[0][1]
        count += len(best) == 2 and gap * min(best[0][1], best[1][1]) < CLOSE
    return count


def scores(model, tasks, limit=None):
    """{task: what `echelon evaluate --json` says, and for each accuracy how many items may differ}"""
    model.close = 0
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):  # bars of progress
        found = evaluate(model, {"tasks": {task.task_name: task for task in tasks}}, limit=limit, bootstrap_iters=1)
    said = {}
    for name, result in found["results"].items():
        samples = found["samples"][name]
        if "acc,none" in result:
            lengths = {"acc": lambda text: 1, "acc_norm": len, "acc_bytes": lambda text: len(text.encode())}
            said[name] = {"kind": "choices", "items": len(samples), "acc_stderr": result["acc_stderr,none"],
                          **{metric: result[f"{metric},none"] for metric in lengths},
                          "close": {metric: close_choices(samples, length) for metric, length in lengths.items()}}
        else:
            said[name] = {"kind": "exact", "items": len(samples), "exact": result["exact_match,answer"],
                          "exact_stderr": result["exact_match_stderr,answer"], "close": {"exact": model.close}}
    return said
