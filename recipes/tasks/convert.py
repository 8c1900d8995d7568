"""Makes tasks for `echelon evaluate` out of five public data sets, worded as lm-evaluation-harness words them.

usage: python3 convert.py hellaswag|arc|piqa|mmlu|gsm8k < rows.jsonl > task.jsonl
       python3 convert.py TASK --shots N < examples.jsonl > prefix.txt

Rows are JSON lines as the method to_json of Hugging Face's data sets writes them. With --shots, the first N rows become the
text for --prefix-file: solved examples in front of each question and, for mmlu, the line that names their subject.
"""
import argparse
import json
import re
import sys


def cleaned(text):
    """Without what HellaSwag's texts keep of the pages they were taken from."""
    text = text.strip().replace(" [title]", ". ")
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")


def hellaswag(row):
    context = row["activity_label"] + ": " + row["ctx_a"] + " " + row["ctx_b"].capitalize()
    return choices(cleaned(context), [cleaned(ending) for ending in row["endings"]], int(row["label"]))


def arc(row):
    """Labels are letters in most rows and digits in others."""
    answers = row["choices"]
    return choices(question(row["question"]), answers["text"], answers["label"].index(row["answerKey"]))


def piqa(row):
    return choices(question(row["goal"]), [row["sol1"], row["sol2"]], int(row["label"]))


def mmlu(row):
    """The answer is an index or, in copies of the data set, a letter."""
    lines = [row["question"].strip(), *(f"{letter}. {text}" for letter, text in zip("ABCD", row["choices"])), "Answer:"]
    answer = str(row["answer"])
    return choices("\n".join(lines), list("ABCD"), int(answer) if answer.isdigit() else "ABCD".index(answer))


def gsm8k(row):
    """For --after "####". A model may write the commas of a number or leave them out, so both are right."""
    _, mark, number = row["answer"].rpartition("####")
    if not mark:
        raise ValueError("no #### in front of a number")
    number = number.strip().replace(",", "")
    commas = f"{int(number):,}" if re.fullmatch(r"-?\d+", number) else number
    return {"prompt": question(row["question"]), "answers": list(dict.fromkeys([number, commas]))}


TASKS = {task.__name__: task for task in (hellaswag, arc, piqa, mmlu, gsm8k)}


def question(text):
    return f"Question: {text}\nAnswer:"


def choices(context, texts, answer):
    if not 0 <= answer < len(texts):
        raise ValueError(f"answer {answer} of {len(texts)} choices")  # -1 stands for a withheld answer
    return {"context": context, "choices": texts, "answer": answer}


def item(name, number, row):
    try:
        return TASKS[name](row)
    except (KeyError, ValueError) as error:
        raise ValueError(f"row {number} is no row of {name} with an answer: {error!r}") from error


def solved(name, number, row):
    """A row as an example: its question and the right answer."""
    made = item(name, number, row)
    if "prompt" in made:
        return f"{made['prompt']} {row['answer']}\n\n"
    return f"{made['context']} {made['choices'][made['answer']]}\n\n"


def prefix(name, rows, shots):
    text = "".join(solved(name, number, row) for number, row in enumerate(rows[:shots], 1))
    if name != "mmlu":
        return text
    subjects = sorted({row["subject"] for row in rows})
    if len(subjects) != 1:
        raise ValueError(f"the prefix names one subject, and the rows are about {', '.join(subjects) or 'none'}")
    return f"The following are multiple choice questions (with answers) about {subjects[0].replace('_', ' ')}.\n\n{text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--shots", type=int, metavar="N", help="write the prefix of the first N rows; 0: mmlu's line alone")
    options = parser.parse_args()
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8", newline="\n")
    rows = [json.loads(line) for line in sys.stdin if line.strip()]
    try:
        if options.shots is None:
            sys.stdout.writelines(json.dumps(item(options.task, number, row), ensure_ascii=False) + "\n"
                                  for number, row in enumerate(rows, 1))
        elif 0 <= options.shots <= len(rows):
            sys.stdout.write(prefix(options.task, rows, options.shots))
        else:
            raise ValueError(f"--shots {options.shots}, and there are {len(rows)} rows")
    except ValueError as error:
        sys.exit(f"convert.py: {error}")


if __name__ == "__main__":
    main()
