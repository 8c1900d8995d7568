#!/usr/bin/env bash
# Eight ranks on four nodes, started by sbatch, train exactly as eight local ranks do and commit a checkpoint.
source "$(dirname "$0")/lib.sh"
use_cluster

job=$(sbatch --parsable --output=job.txt --nodes=4 --ntasks-per-node=2 "$train_sbatch" "$tiny_yaml" \
  run.dir="$work/cluster")
"$ECHELON_BIN" train "$tiny_yaml" --ranks 8 run.dir="$work/local" >local.txt 2>&1 ||
  fail "training with eight local ranks" local.txt
wait_for_job "$job"
expect_equal "exit code of the job" 0:0 "$(job_field "$job" ExitCode)" job.txt

expect_equal "logged steps" "1 2 3 4 5 6" "$(metrics_field cluster step | xargs)" job.txt
expect_match "losses" '^([0-9]+\.[0-9]+ ?){6}$' "$(metrics_field cluster loss | xargs)" cluster/metrics.jsonl
expect_equal "losses" "$(metrics_field local loss)" "$(metrics_field cluster loss)"
"$ECHELON_CKPT_BIN" verify cluster >verify.txt 2>&1 || fail "the cluster's checkpoint" verify.txt
