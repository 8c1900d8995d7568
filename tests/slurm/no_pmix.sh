#!/usr/bin/env bash
# srun without PMIx must not become N jobs of one rank each: every task says what is missing and exits with 3.
source "$(dirname "$0")/lib.sh"
use_cluster

exits 3 srun.txt srun --nodes=2 --ntasks=2 --mpi=none --output=out-%t.txt --error=err-%t.txt \
  "$ECHELON_BIN" train "$tiny_yaml" run.dir="$work/run"
for task in 0 1; do
  expect_equal "errors of task $task" 1 "$(grep -c "^echelon: " err-$task.txt)" err-$task.txt
  expect_match "stderr of task $task" '--mpi=pmix' "$(cat err-$task.txt)"
done
[[ ! -e run/metrics.jsonl ]] || fail "it trained all the same" run/metrics.jsonl
