#!/usr/bin/env bash
# Every recipe runs ten steps, twice to the same bits, and its losses are those of tests/golden/losses (to the dtype's
# tolerance: processors differ). HONE_WRITE_LOSSES=1 writes these files anew.
set -euo pipefail
goldens=$HONE_SOURCE/tests/golden/losses
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
make_task .
sed -E 's/.*"prompt": ("[^"]*"), "completion": ("[^"]*").*/{"messages": [{"role": "user", "content": \1}, {"role": "assistant", "content": \2}]}/' \
  train.jsonl >chats.jsonl
hone init model --model.type=llama --model.hidden_size=32 --model.intermediate_size=64 --model.num_hidden_layers=2 \
  --model.num_attention_heads=4 --model.num_key_value_heads=2 --model.max_position_embeddings=512 --tokenizer bytes >/dev/null
hone init teacher --model.type=llama --model.hidden_size=48 --model.intermediate_size=64 --model.num_hidden_layers=1 \
  --model.num_attention_heads=4 --model.max_position_embeddings=512 --tokenizer bytes --seed 2 >/dev/null
pair='{"prompt": \1, "chosen": "\2", "rejected": "\2 7"}'
sed -E 's/.*"prompt": ("[^"]*"), "completion": "([^"]*)".*/'"$pair/" train.jsonl >pairs.jsonl
sed -E 's/.*"prompt": ("[^"]*"), "completion": "[^"]*([0-9])[^0-9"]*".*/{"text": \1, "label": "\2"}/' train.jsonl >labelled.jsonl
sed -E 's/"text": (.*), "label": "(.*)"}/"tokens": [\1, "so"], "tags": ["A\2", "O"]}/' labelled.jsonl >tagged.jsonl
sed -E 's/"completion"/"answer"/' train.jsonl >asked.jsonl
sed -E 's/.*"prompt": ("[^"]*"), "completion": ("[^"]*").*/{"query": \1, "positive": \2}/' train.jsonl >near.jsonl
awk '{ sub(/}$/, ", \"label\": " (NR % 3 ? "true" : "false") "}"); print }' train.jsonl >judged.jsonl
hone init bert --model.type=bert --model.hidden_size=32 --model.intermediate_size=64 --model.num_hidden_layers=2 \
  --model.num_attention_heads=4 --model.max_position_embeddings=128 --tokenizer bytes >/dev/null

hone init t5 --model.type=t5 --model.d_model=32 --model.d_kv=16 --model.d_ff=64 --model.num_layers=2 \
  --model.num_heads=2 --model.initializer_factor=0.2 --tokenizer bytes >/dev/null

hone init llava --tokenizer bytes --model.type=llava --model.image_token_index=35 \
  --model.text_config='{hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4,
    max_position_embeddings: 512}' --model.vision_config='{hidden_size: 16, intermediate_size: 32,
    num_hidden_layers: 2, num_attention_heads: 2, image_size: 16, patch_size: 4}' >/dev/null
echo '{"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 16},
  "crop_size": {"height": 16, "width": 16}}' >llava/preprocessor_config.json
echo "{% for m in messages %}{{ m.role[0] }}:{% for c in m.content %}" \
  "{% if c.type == 'image' %}#{% else %}{{ c.text }}{% endif %}{% endfor %}{{ eos_token }}{% endfor %}" \
  >llava/chat_template.jinja
files=$HONE_SOURCE/tests/golden/images/files
awk -v files="$files" 'BEGIN { split("420.jpg gradient.png tall.png lossy.webp", all, " ") }
  { sub(/^{/, "{\"images\": [\"" files "/" all[NR % 4 + 1] "\"], "); print }' chats.jsonl >pictures.jsonl

sed -E 's/.*"prompt": ("[^"]*"), "completion": ("[^"]*").*/{"text": \1}/' train.jsonl >texts.jsonl
hone tokenizer train texts.jsonl --kind word_piece --vocab-size 60 --min-frequency 1 --out words --quiet >/dev/null
hone init words-bert --model.type=bert --model.hidden_size=32 --model.intermediate_size=64 --model.num_hidden_layers=2 \
  --model.num_attention_heads=4 --model.max_position_embeddings=128 --tokenizer words >/dev/null

sed -E 's/.*"prompt": "([0-9]*)([^0-9"])([^"]*)".*/{"question": "\2", "context": "so \1 \2 \3", ANSWER}/
s/so ([0-9]*) (.*), ANSWER/so \1 \2, "answers": {"text": ["\1"], "answer_start": [3]}/' \
  train.jsonl >squad.jsonl

cat >environment.sh <<'E'
while read -r line; do
  case $line in
    *'"last":true'*) echo '{"done": true, "reward": 1}' ;;
    *'"turn":2'*) echo '{"done": true}' ;;
    *) echo '{"text": "? "}' ;;
  esac
done
E

losses() { sed -nE 's/.*"loss":([^,}]*).*"step":([0-9]+).*/\2 \1/p' "$1/metrics.jsonl"; }

for recipe in "$HONE_SOURCE"/recipes/*.yaml "$HONE_SOURCE"/examples/*/recipe.yaml; do
  name=$(basename "$recipe" .yaml)
  if [ "$name" = recipe ]; then name=$(basename "$(dirname "$recipe")"); fi
  data=train.jsonl
  model=model
  if [ "$name" = chat ]; then data=chats.jsonl; fi
  if [[ "$name" = dpo || "$name" = lora-dpo || "$name" = orpo || "$name" = reward ]]; then data=pairs.jsonl; fi
  # What is drawn differs between processors as soon as logits do; runs are still equal to each other.
  if [[ "$name" = grpo* || "$name" = online-dpo || "$name" = ppo || "$name" = sdft || "$name" = guess ]]; then
    data=asked.jsonl
  fi
  if [ "$name" = kto ]; then data=judged.jsonl; fi
  if [ "$name" = embedding ]; then data=near.jsonl model=bert; fi
  if [ "$name" = classify ]; then data=labelled.jsonl model=bert; fi
  if [ "$name" = seq2seq ]; then model=t5; fi
  if [ "$name" = images ]; then data=pictures.jsonl model=llava; fi
  if [ "$name" = masked-lm ]; then data=texts.jsonl model=words-bert; fi
  if [ "$name" = token-labels ]; then data=tagged.jsonl model=bert; fi
  if [ "$name" = question-answering ]; then data=squad.jsonl model=words-bert; fi
  common=("$recipe" --data.train="$data" '--data.eval={}' --trainer.steps=10 --trainer.log_every=1 --trainer.precision=fp32 --trainer.epochs=null --trainer.eval_every=0 --quiet)
  if [ "$name" = question-answering ]; then common+=(--data.max_length=128); fi
  # A warm-up that fits ten steps, with the same learning rates in them.
  case $name in
    pretrain-32m) common+=(--optimizer.schedule.warmup_steps=10 --optimizer.learning_rate=8.7e-5 --optimizer.schedule.final_ratio=0.6896551724137931) ;;
    shakespeare-bytes | quickstart) common+=(--optimizer.schedule.warmup_steps=10 --optimizer.learning_rate=6e-4) ;;
  esac
  if grep -q 'path: my-model' "$recipe"; then common+=(--model.path=$model); fi
  if [[ "$name" = grpo* || "$name" = online-dpo || "$name" = ppo || "$name" = sdft ]]; then
    common+=(--objective.max_completion_length=12 --optimizer.schedule='{type: constant}')
  fi
  if [[ "$name" = grpo-environment || "$name" = guess ]]; then
    common+=('--objective.environment.command=sh environment.sh' '--objective.stop=["1", "2", "3", a, e, i, o, " "]')
  fi
  if grep -q 'teacher: my-teacher' "$recipe"; then common+=(--objective.teacher=teacher); fi
  hone train "${common[@]}" --run.folder="$name-1" >"$name.log" 2>&1 || { cat "$name.log"; exit 1; }
  hone train "${common[@]}" --run.folder="$name-2" >"$name.log" 2>&1
  weights=model.safetensors
  if [[ "$name" = *lora* ]]; then weights=adapter_model.safetensors; fi
  cmp "$name-1/checkpoints/step-00000010/$weights" "$name-2/checkpoints/step-00000010/$weights"
  losses "$name-1" >"$name.txt"
  [ "$(wc -l <"$name.txt")" = 10 ]
  if [ "$data" = asked.jsonl ]; then echo "$name: ten steps, twice the same"; continue; fi
  if [ -n "${HONE_WRITE_LOSSES:-}" ]; then mkdir -p "$goldens" && cp "$name.txt" "$goldens/$name.txt"; fi
  paste "$goldens/$name.txt" "$name.txt" | awk -v name="$name" '
    { difference = $2 - $4; if (difference < 0) difference = -difference
      if ($1 != $3 || difference > 1e-4 * ($2 > 1 ? $2 : 1)) { print name ": step " $1 ": loss " $4 ", expected " $2; bad = 1 } }
    END { exit bad }'
  echo "$name: ten steps as expected"
done
