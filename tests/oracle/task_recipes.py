"""What recipes/tasks/convert.py makes of rows is what lm-evaluation-harness's own tasks ask of a model for them."""
import json
import pathlib
import subprocess
import sys

import harness

CONVERT = pathlib.Path(__file__).resolve().parents[2] / "recipes" / "tasks" / "convert.py"
HELLASWAG = [
    {"ind": 4, "activity_label": "Removing ice from car", "ctx_a": "Then, the man writes over the snow covering the window.",
     "ctx_b": "then", "ctx": "Then, the man writes over the snow covering the window. then", "split": "val", "label": "3",
     "endings": [", the man adds wax.", ", a person board a ski lift.", ", the man puts on a coat [laughs].", ", the man goes on."],
     "source_id": "activitynet~v_-1IBHYS3L-Y", "split_type": "indomain"},
    {"ind": 9, "activity_label": " Pets and Animals", "ctx_a": "How to care for a cat [header] Feed it. [title] Buy  food. [step] Go",
     "ctx_b": "", "ctx": "", "endings": ["[step] To a shop.", "Nowhere [title] Stay", "  ok ", "über größe  "], "label": "0",
     "source_id": "wikihow~1", "split": "val", "split_type": "zeroshot"},
    {"ind": 11, "activity_label": "Cello", "ctx_a": "A boy is seen.", "ctx_b": "the BOY plays in Rome", "ctx": "",
     "endings": ["well.", "badly."], "label": "1", "source_id": "", "split": "train", "split_type": "indomain"}]
ARC = [
    {"id": "Mercury_7175875", "question": "An astronomer observes that a planet rotates faster. Which is the likely effect?",
     "choices": {"text": ["Density falls.", "Years grow longer.", "Days grow shorter.", "Gravity \"grows\"."],
                 "label": ["A", "B", "C", "D"]}, "answerKey": "C"},
    {"id": "MCAS_2000_4_6", "question": "Which is not a fruit? ", "choices": {"text": ["apple", "stone's", "pear", "fig"],
                                                                            "label": ["1", "2", "3", "4"]}, "answerKey": "2"},
    {"id": "NY_1", "question": "What is 2 + 1?", "choices": {"text": ["2", "5", "3", "4", "1"], "label": ["A", "B", "C", "D", "E"]},
     "answerKey": "E"}]
PIQA = [{"goal": "How do I keep rice from sticking?", "sol1": "Rinse it.", "sol2": "Burn it.\nTwice.", "label": 0},
        {"goal": "{ice", "sol1": "Boil {{ water }}.", "sol2": "Freeze \"water\" 'now'.", "label": 1},
        {"goal": "To sharpen a knife,", "sol1": "use soap", "sol2": "use a stone", "label": 1}]
MMLU = [{"question": " Which bone is in the arm? ", "subject": "anatomy", "choices": ["Femur", "Ulna", "Tibia", "Rib "], "answer": 1},
        {"question": "Line one\nLine two", "subject": "anatomy", "choices": ["a", "b", "5", "d"], "answer": 0},
        {"question": "Of which organ is the cortex?", "subject": "anatomy", "choices": ["w", "x", "y", "z"], "answer": 3}]
LETTERS = [{**row, "answer": "ABCD"[row["answer"]]} for row in MMLU]
GSM8K = [{"question": "Ann has 5 boxes of 250 pens. How many pens has she?", "answer": "5 * 250 = <<5*250=1250>>1250\n#### 1,250"},
         {"question": "It was 3 degrees and fell by 7. What is it?", "answer": "3 - 7 = -4\n#### -4"},
         {"question": "What is half of 5?", "answer": "5 / 2 = 2.5\n#### 2.5"}]
TASKS = [("hellaswag", "hellaswag/hellaswag.yaml", HELLASWAG), ("arc", "arc/arc_easy.yaml", ARC),
         ("arc", "arc/arc_challenge.yaml", ARC), ("piqa", "piqa/piqa.yaml", PIQA), ("mmlu", "mmlu/default/mmlu_anatomy.yaml", MMLU),
         ("mmlu", "mmlu/default/mmlu_anatomy.yaml", LETTERS), ("gsm8k", "gsm8k/gsm8k.yaml", GSM8K)]
REFUSED = [("hellaswag", {**HELLASWAG[0], "label": ""}), ("piqa", {**PIQA[0], "label": -1}), ("arc", {**ARC[0], "answerKey": ""}),
           ("mmlu", {"question": "x"}), ("gsm8k", {**GSM8K[0], "answer": "4"})]


def convert(task, rows, *options, code=0):
    done = subprocess.run([sys.executable, str(CONVERT), task, *options], input="".join(json.dumps(row) + "\n" for row in rows),
                          capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == code, f"{task}: {done}"
    return done.stdout if code == 0 else done.stderr


def check_item(task, doc, shots, prefix, item):
    context = task.fewshot_context(doc, num_fewshot=shots)
    requests = task.construct_requests(doc, context)
    if "prompt" in item:
        assert requests.args[0] == prefix + item["prompt"], (requests.args, item)
        rights = [task.process_results(doc, [text])["exact_match"] for text in [*item["answers"], item["answers"][0] + "1"]]
        assert rights == [1] * len(item["answers"]) + [0], (doc, item)
        return
    asked = [(prefix + item["context"], f" {choice}") for choice in item["choices"]]
    assert [request.args for request in requests] == asked, f"the harness asks {[request.args for request in requests]}, {asked}"
    target = task.doc_to_target(doc)
    assert item["answer"] == (task.doc_to_choice(doc).index(target) if isinstance(target, str) else target), (doc, item)


def check_task(name, path, rows):
    """Without examples, and with the last row as an example in front of the others."""
    for shots, rows_asked in ((0, rows), (1, rows[:2])):
        examples = rows[2:]
        task = harness.own_task(path, rows_asked, examples)
        prefix = convert(name, examples, "--shots", str(shots))
        items = [json.loads(line) for line in convert(name, rows_asked).splitlines()]
        for doc, item in zip(task.eval_docs, items, strict=True):
            check_item(task, doc, shots, prefix, item)


def check_subjects():
    """The line in front of each of mmlu's subjects."""
    paths = sorted((harness.FOLDER / "lm_eval" / "tasks" / "mmlu" / "default").glob("mmlu_*.yaml"))
    assert len(paths) == 57, paths
    sys.path.insert(0, str(CONVERT.parent))
    import convert as recipe
    for path in paths:
        config = harness.own_config(path)
        line = recipe.prefix("mmlu", [{"subject": config["dataset_name"]}], 0)
        assert line == config["description"], (line, config["description"])


def check():
    for name, path, rows in TASKS:
        check_task(name, path, rows)
    for name, row in REFUSED:
        for options in ((), ("--shots", "1")):
            assert "row 1 is no row" in convert(name, [row], *options, code=1), name
    assert "names one subject" in convert("mmlu", [MMLU[0], {**MMLU[1], "subject": "law"}], "--shots", "1", code=1)
    check_subjects()
    print(f"ok recipes/tasks/convert.py asks what {len(TASKS)} definitions of the harness ask", flush=True)
