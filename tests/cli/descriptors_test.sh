#!/usr/bin/env bash
# A process that may open no more files, for real: its saves fail and say why, training goes on, and when it may again
# the next one is made.
set -euo pipefail
command -v prlimit >/dev/null || { echo "skipped: no prlimit"; exit 77; }
folder=$(mktemp -d)
child=
trap 'if [ -n "$child" ]; then kill -9 "$child" 2>/dev/null || true; fi; rm -rf "$folder"' EXIT
cd "$folder"
for i in $(seq 50); do echo "{\"text\": \"a text of about thirty letters $i\"}"; done >d.jsonl
cat >r.yaml <<R
model: {type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2}
tokenizer: bytes
data: {train: d.jsonl, max_length: 32}
trainer: {batch_size: 2, steps: 1000000, log_every: 5, precision: fp32, save: {every: 5, keep: 2}}
run: {folder: out}
R
fail() { echo "$1"; tail -20 log; exit 1; }
wait_for() {  # a command that succeeds once it is time
  for _ in $(seq 600); do
    if "$@" 2>/dev/null; then return; fi
    kill -0 "$child" 2>/dev/null || fail "the run ended by itself"
    sleep 0.1
  done
  fail "waited in vain for: $*"
}
has_checkpoint() { ls -d out/checkpoints/step-* >/dev/null; }
for beside in false true; do
  env --default-signal=INT hone train r.yaml --trainer.save.asynchronous=$beside >log 2>&1 &
  child=$!
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
