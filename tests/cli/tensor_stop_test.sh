#!/usr/bin/env bash
# Ranks that compute a batch together stop in the middle of an evaluation together, though the limit of time is by one's
# clock: a rank that left alone would leave the other one waiting.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "$1"; cat out; exit 1; }
for i in $(seq 100); do echo "{\"text\": \"some text $i\"}"; done >d.jsonl
many="of which there are too many to be read in two seconds"
for i in $(seq 6000); do echo "{\"text\": \"a longer text $i $((i * i)) $many $i\"}"; done >e.jsonl
cat >r.yaml <<'R'
model: {type: llama, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 4, num_attention_heads: 4}
tokenizer: bytes
data: {train: d.jsonl, eval: {e: e.jsonl}, max_length: 128}
trainer: {batch_size: 4, steps: 50, eval_every: 2, eval_batch_size: 1, time_limit: 2s}
parallel: {tensor: -1}
run: {folder: run}
R
status=0; timeout -k 5 300 hone launch -n 2 train r.yaml >out 2>&1 || status=$?
[ $status = 75 ] || fail "exit $status"
grep -q 'stopped: step 2 of 50.*by the time limit of 2s' out || fail "it did not stop in the evaluation"
[ -e run/checkpoints/step-00000002 ] || fail "no checkpoint"
