#!/usr/bin/env bash
# A model that was taught sums learns from its own mistakes: DPO of right answers against wrong ones of its own. It then
# answers more of the sums that it has never seen.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
make_task .
# Its learning rate only rises: stopped there it makes mistakes that can be mended.
cat >sft.yaml <<'YAML'
model: {type: llama, hidden_size: 128, intermediate_size: 384, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 4, max_position_embeddings: 64, tie_word_embeddings: true}
tokenizer: bytes
data: {train: train.jsonl, max_length: 64, packing: none}
optimizer: {type: adamw, learning_rate: 3e-3, weight_decay: 0.1, betas: [0.9, 0.98], schedule: {type: constant, warmup_steps: 1000}}
trainer: {batch_size: 128, steps: 1000, precision: fp32}
run: {folder: sft, seed: 1}
YAML
cat >dpo.yaml <<'YAML'
model: {path: sft}
data: {train: pairs.jsonl, eval: {held_out: 0.1}, max_length: 64, packing: none}
objective: {type: dpo, beta: 0.5}
optimizer: {type: adamw, learning_rate: 1e-5, weight_decay: 0.0, schedule: {type: linear, warmup_ratio: 0.1}}
trainer: {batch_size: 64, epochs: 4, max_grad_norm: 1.0, precision: fp32, eval_every: 40}
run: {folder: dpo, seed: 1}
YAML
matches() {
  hone eval "$1" --data test.jsonl --metric exact_match --json --quiet | sed -E 's/.*"exact_match":([0-9.]+).*/\1/'
}

hone train sft.yaml --quiet
hone generate sft --prompts train.jsonl --max-new-tokens 8 --batch-size 128 --temperature 1 --seed 5 --json --quiet \
  >answers.jsonl
# Lines of both files belong together; where the answer is another one than the sum, they are a pair.
paste -d '\n' train.jsonl answers.jsonl | awk -F '"' '
  NR % 2 { prompt = $4; right = $8; next }
  $8 != right && $8 != "" {
    printf "{\"prompt\": \"%s\", \"chosen\": \"%s\", \"rejected\": \"%s\"}\n", prompt, right, $8
  }
' >pairs.jsonl
[ "$(wc -l <pairs.jsonl)" -ge 500 ] || { echo "too few mistakes to learn from"; exit 1; }
hone train dpo.yaml --quiet
before=$(matches sft) after=$(matches dpo)
echo "$(wc -l <pairs.jsonl) pairs; exact match before $before, after $after"
awk -v before="$before" -v after="$after" 'BEGIN { exit !(after >= before + 0.04) }'
