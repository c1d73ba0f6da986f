#!/usr/bin/env bash
# A process that may open no more files, for real: its saves fail and say why, training goes on, and when it may again
# the next one is made.
set -euo pipefail
command -v prlimit >/dev/null || { echo "skipped: no prlimit"; exit 77; }
. "$(dirname "$0")/../harness/long_run.sh"
has_checkpoint() { ls -d out/checkpoints/step-* >/dev/null; }
for beside in false true; do
  start --trainer.log_every=5 --trainer.save.every=5 --trainer.save.keep=2 --trainer.save.asynchronous=$beside
  wait_for has_checkpoint
  before=$(grep -c 'saved out' log || true)
  prlimit --pid "$child" --nofile=5: 2>/dev/null || { echo "skipped: prlimit may not do it"; exit 77; }
  wait_for grep -q 'checkpoint of step [0-9]* failed: out/.*: Too many open files; .*training continues' log
  steps=$(wc -l <out/metrics.jsonl)
  trains() { [ "$(wc -l <out/metrics.jsonl)" -gt "$((steps + 3))" ]; }
  wait_for trains
  has_checkpoint || fail "the last checkpoint is gone"
  prlimit --pid "$child" --nofile=1024:
  saves() { [ "$(grep -c 'saved out' log)" -gt "$((before + 2))" ]; }
  wait_for saves
  kill -INT "$child"
  status=0
  wait "$child" || status=$?
  child=
  [ $status = 75 ] || fail "exit $status, expected 75"
  for checkpoint in out/checkpoints/step-*; do
    hone inspect checkpoint "$checkpoint" --full >checked || fail "$checkpoint is not whole"
  done
  rm -rf out
done
