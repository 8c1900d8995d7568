#!/usr/bin/env bash
# cluster/slurm/*.sbatch: accepted by Slurm, and train.sbatch clear when it is used wrongly.
source "$(dirname "$0")/lib.sh"
use_cluster

bash -n "$train_sbatch" || fail "train.sbatch is not valid bash"
sbatch --test-only --nodes=4 --ntasks-per-node=2 "$train_sbatch" recipe.yaml >test_only.txt 2>&1 ||
  fail "sbatch refuses train.sbatch" test_only.txt
expect_match "sbatch --test-only" 'using 8 processors on nodes n\[0-3\]' "$(cat test_only.txt)"

plain_sbatch=${train_sbatch%/*}/plain.sbatch
bash -n "$plain_sbatch" || fail "plain.sbatch is not valid bash"
sbatch --test-only --nodes=4 --ntasks-per-node=2 "$plain_sbatch" recipe.yaml >test_only.txt 2>&1 ||
  fail "sbatch refuses plain.sbatch" test_only.txt
run_and_expect() {  # run_and_expect EXIT_CODE REGEX ARGUMENTS OF train.sbatch
  local code=$1 regex=$2 job
  shift 2
  job=$(sbatch --parsable --output=job.txt --nodes=1 "$train_sbatch" "$@")
  wait_for_job "$job" 60
  expect_equal "exit code of the job" "$code:0" "$(job_field "$job" ExitCode)" job.txt
  expect_match "its log" "$regex" "$(cat job.txt)"
  expect_equal "lines in its log" 1 "$(wc -l <job.txt)" job.txt
  rm job.txt
}
run_and_expect 2 '^train.sbatch: expected: sbatch \[options\] train.sbatch RECIPE'
ECHELON_BIN=$work/no-such-program run_and_expect 3 'no-such-program does not exist' recipe.yaml
unset ECHELON_BIN
run_and_expect 3 "$work/build/release/bin/echelon does not exist" recipe.yaml
