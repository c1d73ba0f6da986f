#!/usr/bin/env bash
# kill -9 at random moments (ten per precision, twenty of a run that saves beside training and of one that trains an
# adapter), the same command again each time: in the end the same bits as without a kill.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
make_task .
cat >recipe.yaml <<'YAML'
model: {type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 64}
tokenizer: bytes
data: {train: train.jsonl, eval: {test: test.jsonl}, max_length: 64}
optimizer: {type: adamw, learning_rate: 1e-3, schedule: {type: cosine, warmup_steps: 10}}
trainer: {batch_size: 4, accumulate: 2, steps: 400, eval_every: 100, log_every: 5, save: {every: 20, keep: 3}}
run: {folder: straight, seed: 3}
YAML

# metrics.jsonl without what differs between equal runs: times, rates, memory.
comparable() { sed -E 's/"(step_seconds|tokens_per_second|peak_memory_bytes|eval_seconds)":[^,}]*,?//g' "$1/metrics.jsonl"; }

RANDOM=42
# check NAME KILLS WEIGHTS OPTIONS...: what the file WEIGHTS holds, and the optimizer's, after KILLS kills.
check() {
  local name=$1 wanted=$2 weights=$3 begin span_ms sleep_ms pid code kills=0 file left resumed
  shift 3
  rm -rf straight broken
  begin=$(date +%s%N)
  hone train recipe.yaml "$@" --quiet >straight.log 2>&1
  span_ms=$((($(date +%s%N) - begin) / 1000000))
  : >broken.log
  while [ $kills -lt "$wanted" ]; do
    hone train recipe.yaml "$@" --run.folder=broken >>broken.log 2>&1 &
    pid=$!
    sleep_ms=$((RANDOM % (span_ms / 2) + 50))  # from the very start of the program to well into the run
    sleep "$(printf '%d.%03d' $((sleep_ms / 1000)) $((sleep_ms % 1000)))"
    kill -9 $pid 2>/dev/null || true
    code=0
    wait $pid 2>/dev/null || code=$?
    # Only a kill that hit a living run counts; a run that got to its end is started anew.
    if [ $code = 137 ]; then kills=$((kills + 1)); fi
    if [ -e broken/checkpoints/step-00000400 ] && [ $kills -lt "$wanted" ]; then rm -rf broken; fi
  done
  hone train recipe.yaml "$@" --run.folder=broken >>broken.log 2>&1
  for file in "$weights" state/optimizer-00000-of-00001.safetensors; do
    cmp "straight/checkpoints/step-00000400/$file" "broken/checkpoints/step-00000400/$file"
  done
  diff <(comparable straight) <(comparable broken)
  left=$(find broken -name '.tmp-*' -o -name '.trash-*')
  [ -z "$left" ] || { echo "left behind: $left"; exit 1; }
  resumed=$(grep -c resuming broken.log || true)
  echo "$name: equal after $kills kills, $resumed resumed starts"
  [ "$resumed" -ge 1 ] || { echo "no start found a checkpoint to resume: the test tested nothing"; exit 1; }
}

check fp32 10 model.safetensors --trainer.precision=fp32
check bf16 10 model.safetensors --trainer.precision=bf16
check beside 20 model.safetensors --trainer.precision=bf16 --trainer.save.asynchronous --trainer.save.every=5
hone init base --model.type=llama --model.hidden_size=32 --model.intermediate_size=64 --model.num_hidden_layers=2 \
  --model.num_attention_heads=4 --model.num_key_value_heads=2 --model.max_position_embeddings=64 --tokenizer bytes
sed -i 's/^model: .*/model: {path: base}/; /^tokenizer/d' recipe.yaml
check lora 20 adapter_model.safetensors --adapter lora --adapter.dropout=0.1 '--adapter.modules_to_save=[lm_head]' \
  --trainer.precision=bf16 --optimizer.learning_rate=1e-2
