# shellcheck shell=bash
# Part of make.sh: the tour from data to a trained model, and images to train on.
# Uses of make.sh: say, die, setup_to_train, fetch_digits, compile.

readonly EXIT_REQUEUE=85
readonly QUICKSTART_RECIPE=recipes/quickstart.yaml QUICKSTART_DATA=data/quickstart QUICKSTART_RUN=runs/quickstart
readonly QUICKSTART_WEIGHTS=$QUICKSTART_RUN/safetensors
QUICKSTART_TRAIN=(build/release/bin/echelon train "$QUICKSTART_RECIPE" --ranks 2)
readonly DIGITS_DATA=data/digits

echelon() { build/release/bin/echelon "$@"; }
echelon_ckpt() { build/release/bin/echelon-ckpt "$@"; }

quickstart_data() {
  say "preparing data: the Python sources inside the torch package, as text"
  echelon prepare "$(site_packages .venv)/torch" --format code --include '*.py' \
    --output "$QUICKSTART_DATA" --train-tokenizer 4096
}

logged_lines() { wc -l 2>/dev/null <"$QUICKSTART_RUN/metrics.jsonl" || echo 0; }

# Starts the run and takes it down as Slurm does on preemption (SIGTERM) once it has logged three lines.
# It must then save and leave with the exit code that asks for another turn.
quickstart_preempted_train() {
  "${QUICKSTART_TRAIN[@]}" &
  local pid=$! code=0
  while kill -0 $pid 2>/dev/null && (($(logged_lines) < 3)); do sleep 0.2; done
  kill -TERM $pid 2>/dev/null || true
  wait $pid || code=$?
  ((code == EXIT_REQUEUE)) ||
    die 1 "the stopped run exited with code $code, expected $EXIT_REQUEUE (see docs/exit_codes.md and $QUICKSTART_RUN/logs)"
}

has_gpu() { compgen -G '/dev/nvidia[0-9]*' >/dev/null || command -v nvidia-smi >/dev/null; }

quickstart() {
  local programs=(echelon echelon-ckpt)
  # The GPU half takes long to compile, and is loaded only where a driver is.
  if has_gpu; then programs=(product); fi
  setup_to_train
  compile release "${programs[@]}"
  quickstart_data
  if [[ ! -e $QUICKSTART_RUN/metrics.jsonl ]]; then
    say "training on two local ranks; it gets a SIGTERM after a few steps, as in a preemption by Slurm"
    quickstart_preempted_train
    say "it saved and exited with code $EXIT_REQUEUE; the same command resumes it"
  else
    say "training on two local ranks"
  fi
  "${QUICKSTART_TRAIN[@]}"
  say "checking every byte of the newest checkpoint"
  echelon_ckpt verify --deep "$QUICKSTART_RUN"
  say "writing its weights as safetensors, in the form that transformers opens"
  rm -rf "$QUICKSTART_WEIGHTS"
  echelon_ckpt consolidate "$QUICKSTART_RUN" --to safetensors --output "$QUICKSTART_WEIGHTS"
  say "sampling from it"
  echelon sample "$QUICKSTART_RUN" --prompt 'def forward(self, x):'
  say "done: data in $QUICKSTART_DATA, the run in $QUICKSTART_RUN (metrics.jsonl, checkpoints/, logs/), weights in $QUICKSTART_WEIGHTS"
}

digits() {
  setup_to_train
  fetch_digits
  .venv/bin/python tests/scripts/digits.py --source "$DIGITS_SOURCE" --output "$DIGITS_DATA"
}
