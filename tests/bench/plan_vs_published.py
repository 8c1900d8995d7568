"""Compares `echelon plan` with published runs, and draws how it expects recipes to scale:

  python3 tests/bench/plan_vs_published.py build/release/bin/echelon docs

reads the published rows in published.json beside this file, plans each of them, and writes plan_vs_published.md and
plan_scaling.svg into the folder. It takes three minutes and needs nothing but the program. Fields of a row:

  like        name of an earlier row, whose fields and overrides this one has where it gives no others
  name, source, note        what it is, where it was published, what is known of it
  recipe, overrides, nodes, gpus_per_node, gpu, network    arguments of `echelon plan`
  published   tokens_per_s_per_gpu; tflops_per_gpu (`flops_count` says what it counts); peak_memory_gib (`memory_count`:
              what the allocator lent, `allocated`, or took from the device, `reserved`); batch_fits, batch_fails
  comparable  yes; partly (something that matters differs, see the note); no
  why         reasons for an error above 10 %
"""
import argparse
import json
import pathlib
import statistics
import subprocess
from xml.sax.saxutils import escape

HERE = pathlib.Path(__file__).resolve().parent
DEVICES = HERE.parents[1] / "src/forecast/data/devices.json"
GIB = 2.0**30
NOTABLE = 10  # per cent
MOST_SAMPLES = 1024

INTRODUCTION = """# The plan against published runs
`echelon plan` predicts memory and speed without the machine. This page compares its predictions with training runs \
that others have published, and shows what it expects of more ranks. It is made by

```sh needs-time
python3 tests/bench/plan_vs_published.py build/release/bin/echelon docs
```

from `tests/bench/published.json`, which has for each row the recipe, the overrides and notes on what the \
publication leaves open. No number of the model was fitted to these rows: the profiles in `src/forecast/data` name \
another source for each number, or call it an estimate. The published runs are PyTorch's FSDP in various versions, \
mostly not compiled. The plan is of Echelon, whose operations between the products are fused, so that some distance \
is expected.

Comparable: `partly` where something that matters is different or unknown, `no` where the row is shown for scale only.
"""

UNKNOWN = """## What the model does not know
- Efficiency of a kernel by shape. Every product runs at one fraction of the peak, every fused attention at another, \
all else at one fraction of the memory's rate. Real kernels lose at small or odd sizes, and at sustained power.
- What concurrent kernels take from each other, beyond the multiprocessors that a collective occupies: the bandwidth \
of the memory.
- NCCL's choice of algorithm and protocol. Gathers are rings whose latency grows with the number of ranks, all-reduces \
rings or trees.
- The allocator at the limit: what it frees and asks for again. Memory of NCCL's connections beyond a constant.
- The host: Python, jitter, garbage collection, reading data, other jobs. The slowest of many ranks sets the pace.
- torch.compile, CUDA graphs, other libraries' fusions: what is predicted is Echelon's own sequence of operations.
- Topology: congestion, rails, oversubscribed switches.
"""

SCALING = """## Scaling
![Tokens per second and rank over the number of ranks, for each strategy](plan_scaling.svg)

One sequence of 8,192 tokens a rank (weak scaling), full recomputation, nodes of 8 H100, EFA of 3,200 Gbit/s a node. `hybrid_shard` has \
groups of 64 ranks for `llama_70b` and of 8 for `llama_8b`. A size whose memory is above the device's is left out of \
the lines and marked x below the axis. Beyond some thousand ranks the lines show the latency of rings, which was \
measured on up to 32 nodes and is extrapolated here: read them as where to leave one strategy for another, not as a \
speed.

"""
RANKS = [2**power for power in range(3, 15)]
PER_NODE = 8
CHARTS = {  # recipe: (strategy, ranks of a group of the hybrid strategies, color, dashes, width)
    "llama_70b": [("full_shard", 0, "#0969da", "", 2.5), ("shard_grad_op", 0, "#bc4c00", "7 4", 2.5),
                  ("hybrid_shard", 64, "#1a7f37", "", 2.5)],
    "llama_8b": [("full_shard", 0, "#0969da", "", 6), ("shard_grad_op", 0, "#bc4c00", "7 4", 2.5),
                 ("shard_optimizer", 0, "#8250df", "2 4", 2.5), ("hybrid_shard", 8, "#1a7f37", "", 2.5),
                 ("no_shard", 0, "#57606a", "7 2 2 2", 2.5)],
}


class Plan:
    """What `echelon plan --json` says about a row."""

    def __init__(self, echelon, row, *overrides):
        own = [f"{key}={value}" for key, value in row["overrides"].items()]
        command = [echelon, "plan", row["recipe"], *own, *overrides, "--nodes", str(row["nodes"]),
                   "--gpus-per-node", str(row["gpus_per_node"]), "--gpu", row["gpu"], "--network", row["network"],
                   "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.json = json.loads(done.stdout or "{}")
        if done.returncode not in (0, 2) or "fits" not in self.json:  # 2: does not fit
            raise SystemExit(f"{row['name']}: {' '.join(command)}: {done.stderr.strip()}")

    def tokens_per_s_per_gpu(self):
        return self.json["tokens_per_s"] / self.json["ranks"]

    def reserved_bytes(self, gpu):
        context = json.loads(DEVICES.read_text())[gpu]["context_bytes"]["value"]
        return self.json["memory"]["peak_bytes"] - context


def published_rows():
    rows = {}
    for row in json.loads((HERE / "published.json").read_text()):
        like = rows[row["like"]] if "like" in row else {"overrides": {}}
        rows[row["name"]] = {**like, **row, "overrides": {**like["overrides"], **row.get("overrides", {})}}
    return list(rows.values())


def ranks_of(row):
    return row["nodes"] * row["gpus_per_node"]


def speed(row, plan):
    """(unit, published, predicted) of a row, or None."""
    published = row["published"]
    if "tokens_per_s_per_gpu" in published:
        return "tokens/s", published["tokens_per_s_per_gpu"], plan.tokens_per_s_per_gpu()
    if "tflops_per_gpu" in published:
        counts_all = published["flops_count"].startswith("with recomputation")
        done = plan.json["done_tflops_per_rank" if counts_all else "tflops_per_rank"]
        return "TFLOP/s", published["tflops_per_gpu"], done
    return None


def memory(row, plan):
    """(what is counted, published, predicted) in GiB, or None."""
    published = row["published"]
    if "peak_memory_gib" not in published:
        return None
    count = published["memory_count"]
    if count == "allocated":
        predicted = plan.json["memory"]["tensor_peak_bytes"]
    else:
        predicted = plan.reserved_bytes(row["gpu"])
    return count, published["peak_memory_gib"], predicted / GIB


def largest_batch(echelon, row):
    """The most samples of a rank that fit, by halving."""
    def fits(samples):
        batch = (f"train.micro_batch_size={samples}", f"train.global_batch_size={samples * ranks_of(row)}")
        return Plan(echelon, row, *batch).json["fits"]
    fitting, failing = 0, 1
    while failing <= MOST_SAMPLES and fits(failing):
        fitting, failing = failing, 2 * failing
    while failing - fitting > 1:
        middle = (fitting + failing) // 2
        fitting, failing = (middle, failing) if fits(middle) else (fitting, middle)
    return fitting


def error(published, predicted):
    """In per cent."""
    return 100 * (predicted / published - 1)


def plain(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


class Page:
    def __init__(self, echelon, rows):
        self.echelon = echelon
        self.rows = rows
        self.sources = list(dict.fromkeys(row["source"] for row in rows))
        self.plans = {row["name"]: Plan(echelon, row) for row in rows}
        self.notable = {}  # name: what disagrees
        self.errors = []   # (quantity, comparable, per cent)

    def setting(self, row):
        network = f", {row['network']}" if row["nodes"] > 1 else ""
        source = self.sources.index(row["source"]) + 1
        return f"{row['name']} ({row['nodes']} x {row['gpus_per_node']} {row['gpu']}{network}) | [{source}](#sources)"

    def compare(self, quantity, row, published, predicted):
        """The error as text; remembers it."""
        off = error(published, predicted)
        self.errors.append((quantity, row["comparable"], off))
        if abs(off) > NOTABLE:
            self.notable.setdefault(row["name"], []).append(f"{quantity} {round(off):+d} %")
        return f"{round(off):+d}"

    def table(self, title, quantity, measure, unit):
        lines = [f"## {title}", f"| setting | source | {unit} | published | predicted | error % | comparable |",
                 "|---|---|---|---|---|---|---|"]
        for row in self.rows:
            found = measure(row, self.plans[row["name"]])
            if found is None:
                continue
            kind, published, predicted = found
            off = self.compare(quantity, row, published, predicted)
            lines.append(f"| {self.setting(row)} | {kind} | {plain(published)} | {plain(predicted)} | {off} | "
                         f"{row['comparable']} |")
        return lines

    def batches(self):
        lines = ["## Batches that fit",
                 "Samples of a rank. `fits` is what the publication ran, not always the most that it could. `fails` is "
                 "mostly implied there, not measured.", "",
                 "| setting | source | fits | fails | predicted to fit at most | agrees | comparable |",
                 "|---|---|---|---|---|---|---|"]
        for row in self.rows:
            published = row["published"]
            if "batch_fits" not in published:
                continue
            most = largest_batch(self.echelon, row)
            fails = published.get("batch_fails")
            agrees = published["batch_fits"] <= most and (fails is None or most < fails)
            self.errors.append(("batch", row["comparable"], agrees))
            if not agrees:
                self.notable.setdefault(row["name"], []).append(f"{most or 'no'} samples predicted to fit")
            lines.append(f"| {self.setting(row)} | {published['batch_fits']} | {fails or ''} | {most} | "
                         f"{'yes' if agrees else 'no'} | {row['comparable']} |")
        return lines

    def reasons(self):
        lines = [f"## Reasons of errors above {NOTABLE} %"]
        for row in self.rows:
            if row["name"] in self.notable:
                what = ", ".join(self.notable[row["name"]])
                lines.append(f"- **{row['name']}** ({what}): {row.get('why', 'not explained.')}")
        return lines

    def summary(self):
        lines = ["## In short", "| | rows | median error % | median of its size % | within 10 % | within 25 % |",
                 "|---|---|---|---|---|---|"]
        for quantity in ("speed", "memory"):
            for title, kinds in (("comparable", ["yes"]), ("comparable or partly", ["yes", "partly"])):
                offs = [off for what, kind, off in self.errors if what == quantity and kind in kinds]
                if offs:
                    within = [sum(abs(off) <= limit for off in offs) for limit in (10, 25)]
                    lines.append(f"| {quantity}, {title} | {len(offs)} | {round(statistics.median(offs)):+d} | "
                                 f"{statistics.median(map(abs, offs)):.0f} | {within[0]} | {within[1]} |")
        agreeing = [agrees for what, _, agrees in self.errors if what == "batch"]
        lines += ["", f"What fits agrees in {sum(agreeing)} of {len(agreeing)} rows."]
        return lines

    def text(self):
        parts = [self.table("Speed", "speed", speed, "per GPU"), self.table("Memory", "memory", memory, "GiB"),
                 self.batches(), self.reasons()]
        listed = ["## Sources", *(f"{number}. {source}" for number, source in enumerate(self.sources, 1))]
        return [self.summary(), *parts], listed


class Curve:
    """Tokens per second and rank of one strategy, by ranks."""

    def __init__(self, echelon, recipe, strategy, group, color, dashes, width):
        self.recipe, self.strategy = recipe, strategy
        self.style = f'stroke="{color}" stroke-width="{width}" stroke-dasharray="{dashes or "none"}"'
        self.color = color
        self.fitting, self.failing = {}, {}  # ranks: tokens/s; ranks: bytes
        for ranks in RANKS:
            row = {"name": f"{recipe} {strategy}", "recipe": recipe, "nodes": ranks // PER_NODE,
                   "gpus_per_node": PER_NODE, "gpu": "h100", "network": "efa-3200g",
                   "overrides": {"shard.strategy": strategy, "shard.mesh.shard": min(group, ranks),
                                 "train.micro_batch_size": 1, "train.global_batch_size": ranks,
                                 "activation_checkpointing.policy": "full"}}
            plan = Plan(echelon, row)
            if plan.json["fits"]:
                self.fitting[ranks] = plan.tokens_per_s_per_gpu()
            else:
                self.failing[ranks] = plan.json["memory"]["peak_bytes"]


def scaling_table(curves):
    """Markdown lines."""
    lines = [f"| {curves[0].recipe}, tokens/s per rank | " + " | ".join(f"{ranks:,}" for ranks in RANKS) + " |",
             "|---" * (len(RANKS) + 1) + "|"]
    for curve in curves:
        cells = [plain(curve.fitting[ranks]) if ranks in curve.fitting else f"x {curve.failing[ranks] / GIB:.0f} GiB"
                 for ranks in RANKS]
        lines.append(f"| `{curve.strategy}` | " + " | ".join(cells) + " |")
    return [*lines, ""]


class Chart:
    """One panel of the picture: `left`, `top` is the upper corner of its plane, in pixels."""

    WIDTH, HEIGHT, LABELS, MARK = 400, 280, 130, 15

    def __init__(self, curves, left, top):
        self.curves, self.left, self.top = curves, left, top
        most = max(value for curve in curves for value in curve.fitting.values())
        self.step = next(step for step in (100, 200, 500, 1000, 2000, 5000, 10000) if most / step <= 6)
        self.most = (int(most / self.step) + 1) * self.step

    def x(self, ranks):
        return self.left + self.WIDTH * (ranks.bit_length() - RANKS[0].bit_length()) / (len(RANKS) - 1)

    def y(self, value):
        return self.top + self.HEIGHT * (1 - value / self.most)

    def text(self, x, y, text, anchor="middle", color="#1f2328", size=12):
        return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" font-size="{size}">'
                f'{escape(text)}</text>')

    def axes(self):
        bottom, right = self.top + self.HEIGHT, self.left + self.WIDTH
        yield self.text(self.left, self.top - 14, f"{self.curves[0].recipe}: tokens/s per rank", "start", size=14)
        for value in range(0, self.most + 1, self.step):
            yield f'<path d="M{self.left} {self.y(value):.1f}H{right}" stroke="#d0d7de"/>'
            yield self.text(self.left - 6, self.y(value) + 4, f"{value:,}", "end", "#57606a")
        for ranks in RANKS:
            yield f'<path d="M{self.x(ranks):.1f} {bottom}v5" stroke="#57606a"/>'
            label = str(ranks) if ranks < 1024 else f"{ranks // 1024}k"
            yield self.text(self.x(ranks), bottom + 18, label, color="#57606a")
        yield self.text(right + 22, bottom + 18, "ranks", "start", "#57606a")

    def marks(self):
        """A row of x for each strategy with sizes that do not fit."""
        y = self.top + self.HEIGHT + 38
        for curve in self.curves:
            if not curve.failing:
                continue
            for ranks in curve.failing:
                yield self.text(self.x(ranks), y, "x", color=curve.color)
            yield self.text(self.left + self.WIDTH + 22, y, f"{curve.strategy} does not fit", "start", curve.color)
            y += self.MARK

    def lines(self):
        """The curves, and their names at the right, apart from each other."""
        ends = []
        for curve in self.curves:
            if not curve.fitting:
                continue
            points = " ".join(f"{self.x(ranks):.1f},{self.y(value):.1f}" for ranks, value in curve.fitting.items())
            yield f'<polyline points="{points}" fill="none" {curve.style}/>'
            last = max(curve.fitting)
            ends.append((self.y(curve.fitting[last]), self.x(last), curve))
        ends.sort(key=lambda end: end[0])
        lowest = self.top + self.HEIGHT - self.MARK * (len(ends) - 1)
        free = self.top
        for place, (y, x, curve) in enumerate(ends):
            at = min(max(free, y), lowest + self.MARK * place)
            free = at + self.MARK
            right = self.left + self.WIDTH
            yield f'<path d="M{x:.1f} {y:.1f}L{right + 22} {at:.1f}h8" stroke="{curve.color}" fill="none"/>'
            yield self.text(right + 34, at + 4, curve.strategy, "start", curve.color)


def picture(charts):
    """An SVG with the charts beside each other."""
    panel = 60 + Chart.WIDTH + Chart.LABELS + 50
    rows = max(sum(bool(curve.failing) for curve in curves) for curves in charts)
    width, height = panel * len(charts), 50 + Chart.HEIGHT + 40 + Chart.MARK * rows
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" role="img" font-family="Segoe UI, Helvetica, Arial, sans-serif">',
             "<title>Predicted tokens per second and rank, by strategy and number of ranks</title>",
             f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for number, curves in enumerate(charts):
        chart = Chart(curves, 60 + panel * number, 50)
        parts += [*chart.axes(), *chart.marks(), *chart.lines()]
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("echelon")
    parser.add_argument("folder", type=pathlib.Path)
    args = parser.parse_args()
    page = Page(args.echelon, published_rows())
    parts, sources = page.text()
    curves = [[Curve(args.echelon, recipe, *how) for how in strategies] for recipe, strategies in CHARTS.items()]
    (args.folder / "plan_scaling.svg").write_text(picture(curves))
    scaling = SCALING + "\n".join(line for chart in curves for line in scaling_table(chart))
    blocks = [INTRODUCTION.rstrip(), *("\n".join(part) for part in parts), UNKNOWN.rstrip(), scaling.rstrip(),
              "\n".join(sources)]
    (args.folder / "plan_vs_published.md").write_text("\n\n".join(blocks) + "\n")


if __name__ == "__main__":
    main()
