#!/usr/bin/env bash
# kill -9 of one of two ranks at twenty random moments, from the start of the program to its end: the other one ends
# within five seconds and names it, and the same command again gives, in the end, the bits of a run without a kill.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
make_task .
cat >recipe.yaml <<'YAML'
model: {type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4,
        num_key_value_heads: 2, max_position_embeddings: 64}
tokenizer: bytes
data: {train: train.jsonl, eval: {test: test.jsonl}, max_length: 64}
optimizer: {type: adamw, learning_rate: 1e-3, schedule: {type: cosine, warmup_steps: 10}}
trainer: {batch_size: 4, accumulate: 2, steps: 400, eval_every: 100, log_every: 5, save: {every: 20, keep: 3}}
run: {folder: straight, seed: 3}
YAML
varying='"(step_seconds|tokens_per_second|peak_memory_bytes|eval_seconds)":[^,}]*,?'
comparable() { sed -E "s/$varying//g" "$1/metrics.jsonl"; }
fail() { echo "$1"; tail -5 log; exit 1; }

RANDOM=42
# check NAME OPTIONS...
check() {
  local name=$1 begin span_ms kills=0 slowest=0 launcher sleep_ms pid killed code took file left resumed
  shift
  rm -rf straight torn
  begin=$(date +%s%N)
  hone launch -n 2 train recipe.yaml "$@" --quiet >log 2>&1
  span_ms=$((($(date +%s%N) - begin) / 1000000))
  : >all.log
  while [ $kills -lt 20 ]; do
    hone launch -n 2 train recipe.yaml "$@" --run.folder=torn >log 2>&1 &
    launcher=$!
    sleep_ms=$((RANDOM % (span_ms / 2) + 20))
    sleep "$(printf '%d.%03d' $((sleep_ms / 1000)) $((sleep_ms % 1000)))"
    pid=$(pgrep -P $launcher | sed -n "$((RANDOM % 2 + 1))p" || true)
    [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
    killed=$(date +%s%N)
    code=0
    wait $launcher 2>/dev/null || code=$?
    took=$((($(date +%s%N) - killed) / 1000000))
    cat log >>all.log
    # Only a kill that hit a living run counts; a run that got to its end is started anew.
    if [ $code != 0 ]; then
      kills=$((kills + 1))
      [ $code = 7 ] || fail "exit $code, expected 7"
      [ $took -le 5000 ] || fail "took $took ms to end"
      [ $took -le $slowest ] || slowest=$took
      grep -q "error: rank [01] (process $pid) was killed by signal 9" log || fail "process $pid is not named"
      [ "$(pgrep -f -- "--run.folder=torn" | wc -l)" = 0 ] || fail "processes are left"
    fi
    if [ -e torn/checkpoints/step-00000400 ] && [ $kills -lt 20 ]; then rm -rf torn; fi
  done
  hone launch -n 2 train recipe.yaml "$@" --run.folder=torn >>all.log 2>&1
  for file in model.safetensors state/optimizer-00000-of-00001.safetensors; do
    cmp "straight/checkpoints/step-00000400/$file" "torn/checkpoints/step-00000400/$file"
  done
  diff <(comparable straight) <(comparable torn)
  left=$(find torn -name '.tmp-*' -o -name '.trash-*')
  [ -z "$left" ] || { echo "left behind: $left"; exit 1; }
  resumed=$(grep -c resuming all.log || true)
  [ "$resumed" -ge 1 ] || { echo "no start found a checkpoint to resume: the test tested nothing"; exit 1; }
  echo "$name: equal after $kills kills, $resumed resumed starts; the others ended within $slowest ms"
}

check whole
check shares --parallel.fsdp=-1
