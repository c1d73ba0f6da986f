#!/usr/bin/env bash
# Whoever reads what a run says may go away: the run goes on to its end, and its numbers are whole.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for i in $(seq 20); do echo "{\"text\": \"a text of about thirty letters $i\"}"; done >d.jsonl
cat >r.yaml <<R
model: {type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2}
tokenizer: bytes
data: {train: d.jsonl, max_length: 32}
trainer: {batch_size: 2, steps: 30, log_every: 1, precision: fp32, save: {every: 10}}
run: {folder: out}
R
fail() { echo "$1"; exit 1; }
whole() {  # every step once, each line an object that ends
  seq 30 | diff - <(sed -E 's/.*"step":([0-9]+).*\}$/\1/' "$1/metrics.jsonl") || fail "$1/metrics.jsonl is not whole"
  [ -e "$1/checkpoints/step-00000030/MANIFEST.json" ] || fail "$1: no last checkpoint"
}
# What could not be said is in the exit status alone: 141 as for any program behind head, 4 for a device that is full.
trains() {  # expected exit status, run folder; what is said goes to the caller's stdout and stderr
  local status=0
  hone train r.yaml --run.folder="$2" || status=$?
  echo "$status" >"status-$2"
  [ "$status" = "$1" ]
}
ends() {  # run folder, exit status that was expected
  [ "$(cat "status-$1")" = "$2" ] || fail "$1: exit $(cat "status-$1"), expected $2"
  whole "$1"
}
(trains 141 piped || true) 2>&1 | true
ends piped 141
(trains 141 headed || true) 2>&1 | head -1 >first
[ -s first ] || fail "nothing was said"
ends headed 141
trains 4 closed >&- 2>&- <&- || true
ends closed 4
trains 4 full >/dev/full 2>&1 || true
ends full 4
# Only what shows progress is gone: all is well.
trains 0 quiet 2>&- || true
ends quiet 0
# An answer that nobody reads is not written to its end.
generates() {
  local status=0
  timeout 100 hone generate piped --prompt a --ignore-eos --max-new-tokens 100000000 || status=$?
  echo "$status" >status
}
generates | head -c 10 >first
[ "$(cat status)" = 141 ] || fail "hone generate behind head: exit $(cat status), expected 141"
