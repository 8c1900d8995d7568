"""`echelon prove` finds faults that are built into a copy of the engine: each is a replacement in one source file, after
which the copy is built again and has to exit with 6 on a recipe that the fault concerns.

By hand: python3 tests/oracle/seeded_faults.py WORK [NAME ...]; WORK holds the copy and its build from run to run.
--check: only that each fault still finds its place in the sources.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
STEP = "src/train/train_step.cpp"
EMA = "  if (state_.ema != nullptr) state_.ema->update();\n"
UPDATE = "  state_.optim.step(state_.step + 1 - state_.skipped, lr, factor);\n"

# name: (file, text, what stands there instead, arguments of prove). Several replacements: a list of pairs.
FAULTS = {
    "loss divided by ranks": (STEP, "factor() / full_targets();", "factor() / full_targets() / comm_.size();", ["smoke"]),
    "first micro-batch counted twice": (STEP, "accumulate(batch, scale,", "accumulate(batch, pass == 0 ? 2 * scale : scale,",
                                        ["smoke"]),
    "last micro-batch left out": (STEP, "accumulate(batch, scale,",
                                  "accumulate(batch, passes > 1 && pass + 1 == passes ? 0 : scale,", ["smoke"]),
    "uneven tokens averaged": (STEP, [
        ("accumulate(batch, scale,", "accumulate(batch, scale * full_targets() / static_cast<double>(passes * comm_.size() * "
                                     "std::max<std::int64_t>(1, counted_targets(samples))),"),
        ("full_targets() / std::max(1.0, sums_.targets) / state_", "1.0 / state_")], ["smoke"]),
    "tied weight reduced twice": ("src/model/ops/embedding.cpp", "add_rows(ids, dy, into", "add_rows(ids, dy + dy, into",
                                  ["llama_3_2_smoke"]),
    "padding trained": ("src/train/batch_tensors.cpp", "  if (!s.target_lengths.empty()) batch.target",
                        "  batch.targets.clamp_min_(0);\n  if (!s.target_lengths.empty()) batch.target", ["smoke"]),
    "mask shifted by one": ("src/train/batch_tensors.cpp", "  if (!s.target_lengths.empty()) batch.target",
                            "  batch.targets = at::where(batch.targets.roll(1) < 0, -1, batch.targets.clamp_min(0));\n"
                            "  if (!s.target_lengths.empty()) batch.target", ["smoke"]),
    "rotary pairs off by one": ("src/model/parts/rotary.cpp", "at::arange(0, size, 2, at::kFloat)",
                                "at::arange(2, size + 2, 2, at::kFloat)", ["smoke"]),
    "window off by one": ("src/model/causal_model.cpp", "attention.window = options_.window;",
                          "attention.window = options_.window + 1;", ["mistral_smoke"]),
    "norm of queries left out": ("src/model/llama/llama.cpp", "if (q_norms_.empty()) return attend;",
                                 "return attend;", ["qwen3_smoke"]),
    "stale gathered weights": (STEP, "  state_.model.weights_updated();\n", "", ["smoke"]),
    "resumed at another sample": ("src/train/trainer_state.cpp", "next_sample = saved.next_sample;",
                                  "next_sample = saved.next_sample + 1;", ["smoke"]),
    "slices swapped by resharding": ("src/train/state_tensors.cpp", [
        ("static_cast<std::uint64_t>(piece.begin),\n                        static_cast<std::uint64_t>(piece.end), bytes",
         "std::uint64_t{0},\n                        static_cast<std::uint64_t>(piece.end - piece.begin), bytes")],
        ["smoke"]),
    "average of the step before": (STEP, [(EMA, ""), (UPDATE, EMA + UPDATE)], ["smoke", "optim.ema_decay=0.9"]),
    "update counted from zero": (STEP, "state_.step + 1 - state_.skipped", "state_.step + 2 - state_.skipped", ["smoke"]),
    "everything decays": ("src/optim/parameter_groups.cpp", "!matches_any(options.no_decay, name)", "true",
                          ["qwen3_smoke", "optim.lr=0.01"]),
    "clipped by the wrong norm": (STEP, "factor *= train.clip_grad_norm / grad_norm;",
                                  "factor *= train.clip_grad_norm / (grad_norm * grad_norm);",
                                  ["smoke", "optim.kind=sgd", "optim.lr=0.1", "train.clip_grad_norm=0.1"]),
    "LoRA scale left out": ("src/model/parts/adapter.cpp", "again) * scale_;", "again);", ["lora_smoke"]),
    "adapters of two matrices swapped": ("src/model/parts/adapter.cpp", "places.push_back({column, outputs});",
                                         "places.insert(places.begin(), {column, outputs});",
                                         ["lora_smoke", "lora.modules=[q_proj, gate_proj, up_proj]"]),
    "mask of a conversation shifted": ("src/data/tokens/chat_loader.cpp", "trained[at] ? ids[at] : -1",
                                       "trained[at - 1] ? ids[at] : -1", ["smoke", "data.kind=chat", "data.path=chats.tok"]),
    "dropout mask shared by ranks": (STEP, "    batch.dropout_key = options_.seed;\n",
                                     "    batch.dropout_key = options_.seed;\n"
                                     "    batch.first_sample -= comm_.rank() * options_.train.micro_batch_size;\n",
                                     ["lora_smoke"]),
    "norm rounded once": ("src/model/kernels/rms_norm.h", "normed<T>(xs[i] * inv, rounding) * (ws[i] + more)",
                          "xs[i] * inv * (ws[i] + more)", ["quickstart"]),
    "fp16 overflow ignored": (STEP, "  if (finite)\n    update_weights(lr, result.grad_norm, factor);\n  else\n    leave_out(result);\n",
                              "  update_weights(lr, result.grad_norm, factor);\n", ["smoke", "precision.param=fp16"]),
    "loss scale not lowered": (STEP, "loss_scale.update(finite)", "loss_scale.update(true)", ["smoke", "precision.param=fp16"]),
    "step left out is counted": (STEP, "state_.step + 1 - state_.skipped", "state_.step + 1", ["smoke", "precision.param=fp16"]),
}


def build(copy):
    subprocess.run(["ninja", "-C", str(copy / "build" / "release"), "echelon"], check=True, stdout=subprocess.DEVNULL)


def prepare(copy):
    """The sources and what cmake needs, with their times; built files and links of an earlier call stay."""
    def left_out(folder, names):
        at = copy / pathlib.Path(folder).relative_to(TOP)
        return [name for name in names if name in (".git", "build", "runs") or (at / name).is_symlink()]
    shutil.copytree(TOP, copy, symlinks=True, dirs_exist_ok=True, ignore=left_out)
    if not (copy / "build" / "release" / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "release"], cwd=copy, check=True, stdout=subprocess.DEVNULL)


def prove(copy, arguments):
    name, *overrides = arguments
    command = [copy / "build" / "release" / "bin" / "echelon", "prove", copy / "recipes" / f"{name}.yaml", *overrides]
    with tempfile.TemporaryDirectory() as runs:  # which prove keeps
        run = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600,
                             env={**os.environ, "TMPDIR": runs})
    return run.returncode, (run.stderr.splitlines() or [""])[-1]


def with_fault(text, name):
    file, *change, _ = FAULTS[name]
    for old, new in change[0] if len(change) == 1 else [tuple(change)]:
        if text.count(old) != 1:
            sys.exit(f"{name}: stands {text.count(old)} times in {file}: {old}")
        text = text.replace(old, new)
    return text


def find(copy, name):
    """The exit code of prove on a copy with this fault, and what it says."""
    path = copy / FAULTS[name][0]
    right = path.read_text()
    try:
        path.write_text(with_fault(right, name))
        build(copy)
        return prove(copy, FAULTS[name][-1])
    finally:
        path.write_text(right)


def check():
    for name in FAULTS:
        with_fault((TOP / FAULTS[name][0]).read_text(), name)
    print(f"{len(FAULTS)} faults find their places")


def main(work, *names):
    copy = pathlib.Path(work)
    prepare(copy)
    missed = []
    for name in names or FAULTS:
        code, said = find(copy, name)
        print(f"{name}: {'found' if code == 6 else f'NOT FOUND, exit code {code}'}; {said}", flush=True)
        if code != 6:
            missed.append(name)
    build(copy)
    return 1 if missed else 0


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    if sys.argv[1] == "--check":
        sys.exit(check())
    sys.exit(main(*sys.argv[1:]))
