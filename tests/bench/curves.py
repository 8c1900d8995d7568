"""Curves of runs as a chart for Markdown (mermaid's xychart): python3 curves.py KEY LABEL=METRICS.jsonl...

KEY is a field of metrics.jsonl such as loss or validation_loss. The x axis is the step; lines of the file that lack the field
are passed over, and what lies between --points steps at equal distances is averaged.
"""
import argparse
import json
import pathlib


def curve(path, key):
    """{step: value}; of a step that was done twice, after a resume, the last counts."""
    lines = (json.loads(line) for line in pathlib.Path(path).read_text().splitlines())
    return {line["step"]: line[key] for line in lines if line.get(key) is not None}


def averaged(values, points):
    """Means of the values in `points` equal stretches of steps, as {last step of the stretch: mean}."""
    last = max(values)
    ends = sorted({round(last * (i + 1) / points) for i in range(points)})
    parts = {end: [v for step, v in values.items() if begin < step <= end] for begin, end in zip([0, *ends], ends)}
    return {end: sum(part) / len(part) for end, part in parts.items() if part}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("key")
    parser.add_argument("runs", nargs="+", metavar="LABEL=METRICS")
    parser.add_argument("--points", type=int, default=20)
    args = parser.parse_args()
    curves = {}
    for run in args.runs:
        label, _, path = run.partition("=")
        values = curve(path, args.key)
        curves[label] = values if len(values) <= args.points else averaged(values, args.points)
    first, *others = curves.values()
    if any(set(other) != set(first) for other in others):
        raise SystemExit("curves.py: the runs have values at different steps; give each a chart of its own")
    print("```mermaid\nxychart-beta")
    print(f'  title "{args.key}: {", ".join(curves)}"')
    print(f'  x-axis "step" [{", ".join(map(str, first))}]')
    print(f'  y-axis "{args.key}"')
    for values in curves.values():
        print(f'  line [{", ".join(f"{value:.4g}" for value in values.values())}]')
    print("```")


if __name__ == "__main__":
    main()
