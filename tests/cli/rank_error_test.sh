#!/usr/bin/env bash
# A reward program fails on one of several ranks: all of them save the last whole step, one of them says why, all end
# with its exit code, and the same command goes on to the bits of a run in which nothing had failed.
set -euo pipefail
fail() {
  echo "$1"
  cat log
  exit 1
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for i in $(seq 24); do echo "{\"prompt\": \"$i+1=\", \"completion\": \"$((i + 1))\"}"; done >d.jsonl
# Whoever comes first in step 4 fails, and the others may hang then.
cat >reward.sh <<'R'
read -r first
case "$first" in *'"step":4'*) if [ -e fails ]; then mkdir failed 2>/dev/null && sleep 1 && exit 3; [ ! -e hang ] || sleep 1000; fi ;; esac
{ printf '%s\n' "$first"; cat; } | awk '{ print length($0) % 3 }'
R
cat >r.yaml <<'R'
model: {type: llama, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 2, max_position_embeddings: 64}
tokenizer: bytes
data: {train: d.jsonl, max_length: 32}
objective: {type: grpo, num_generations: 2, max_completion_length: 8, rewards: [{type: command, command: 'sh reward.sh'}]}
optimizer: {type: adamw, learning_rate: 1e-2}
trainer: {batch_size: 2, accumulate: 4, steps: 6, precision: fp32, log_every: 1, save: {every: 100}}
run: {seed: 1}
R
check() { # ranks, further options
  local ranks=$1 status=0 begin=$SECONDS
  shift
  rm -rf out straight fails failed
  hone launch -n "$ranks" train r.yaml --run.folder=straight --quiet "$@" >log 2>&1 || fail 'the straight run failed'
  : >fails
  hone launch -n "$ranks" train r.yaml --run.folder=out "$@" >log 2>&1 || status=$?
  [ $status = 4 ] || fail "$ranks ranks: exit $status, expected 4"
  [ $((SECONDS - begin)) -lt 60 ] || fail "$ranks ranks: it took $((SECONDS - begin)) s"
  [ "$(grep -c 'reward command: `sh reward.sh`: exit code 3' log)" = 1 ] || fail "$ranks ranks: not told once"
  grep -q 'out: step 3 is saved; once what is said below is mended' log ||
    fail "$ranks ranks: step 3 is not told as saved"
  [ "$(ls out/checkpoints)" = step-00000003 ] || fail "$ranks ranks: got $(ls -A out/checkpoints)"
  rm fails
  hone launch -n "$ranks" train r.yaml --run.folder=out "$@" >log 2>&1 || fail "$ranks ranks: it does not go on"
  grep -q 'resuming at step 3' log || fail "$ranks ranks: it does not go on from step 3"
  cmp out/checkpoints/step-00000006/model.safetensors straight/checkpoints/step-00000006/model.safetensors ||
    fail "$ranks ranks: other weights"
}
check 2
check 4
: >hang
check 2
