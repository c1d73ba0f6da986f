#!/usr/bin/env bash
# kill -9 at random moments of a run on a pipe, and of one on a pipe mixed with a file: the same command again goes on
# to the bits of a run without a kill. A signal while the pipe is silent: saved, exit 75.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >recipe.yaml <<'YAML'
model: {type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 64}
tokenizer: bytes
data: {train: [/dev/stdin], max_length: 64, stream_window: 40}
optimizer: {type: adamw, learning_rate: 1e-3}
trainer: {batch_size: 4, accumulate: 2, steps: 300, log_every: 5, precision: fp32, save: {every: 20, keep: 3}}
run: {folder: straight, seed: 3}
YAML
lines() {
  awk -v n="$1" -v word="$2" \
    'BEGIN { for (i = 0; i < n; ++i) printf "{\"text\": \"%s %d %d\"}\n", word, i, i * i % 1013 }'
}
lines 40 file >file.jsonl
comparable() {
  sed -E 's/"(step_seconds|tokens_per_second|peak_memory_bytes|eval_seconds)":[^,}]*,?//g' "$1/metrics.jsonl"
}

RANDOM=7
for train in '[/dev/stdin]' '[{path: /dev/stdin, weight: 2}, {path: file.jsonl}]'; do
  rm -rf straight broken
  begin=$(date +%s%N)
  hone train recipe.yaml --data.train="$train" --quiet < <(lines 100000 piped) >straight.log 2>&1
  span_ms=$((($(date +%s%N) - begin) / 1000000))
  : >broken.log
  kills=0
  while [ $kills -lt 6 ]; do
    hone train recipe.yaml --data.train="$train" --run.folder=broken < <(lines 100000 piped) >>broken.log 2>&1 &
    pid=$!
    sleep_ms=$((RANDOM % (span_ms * 2 / 3) + 50))
    sleep "$(printf '%d.%03d' $((sleep_ms / 1000)) $((sleep_ms % 1000)))"
    kill -9 $pid 2>/dev/null || true
    code=0
    wait $pid 2>/dev/null || code=$?
    if [ $code = 137 ]; then kills=$((kills + 1)); fi
    if [ -e broken/checkpoints/step-00000300 ] && [ $kills -lt 6 ]; then rm -rf broken; fi
  done
  hone train recipe.yaml --data.train="$train" --run.folder=broken < <(lines 100000 piped) >>broken.log 2>&1
  for file in model.safetensors state/optimizer-00000-of-00001.safetensors; do
    cmp "straight/checkpoints/step-00000300/$file" "broken/checkpoints/step-00000300/$file"
  done
  diff <(comparable straight) <(comparable broken)
  resumed=$(grep -c resuming broken.log || true)
  echo "$train: equal after $kills kills, $resumed resumed starts"
  [ "$resumed" -ge 1 ] || { echo "no start found a checkpoint to resume: the test tested nothing"; exit 1; }
done

# A pipe that says nothing more, and nobody closes.
mkfifo silent
hone train recipe.yaml --data.train='[silent]' --run.folder=waiting >waiting.log 2>&1 &
pid=$!
exec 3>silent
lines 600 piped >&3
for _ in $(seq 300); do
  if [ -s waiting/metrics.jsonl ]; then break; fi
  sleep 0.1
done
sleep 1
kill -TERM $pid
code=0
wait $pid || code=$?
[ $code = 75 ] || { cat waiting.log; echo "exit $code, expected 75"; exit 1; }
grep -q 'SIGTERM at step [0-9]*: saved' waiting.log || { cat waiting.log; exit 1; }
exec 3>&-
