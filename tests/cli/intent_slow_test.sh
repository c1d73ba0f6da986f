#!/usr/bin/env bash
# Every option of a recipe and every flag of a command does something or is refused: each has a row below with what it is
# compared with, and the test fails for one without a row, and for one whose two runs cannot be told apart.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
failures=0
complain() { echo "$1"; failures=$((failures + 1)); }

# ------------------------------------------------------------------------------------------------- what is trained on
for i in $(seq 24); do echo "{\"text\": \"text $((i * 7 % 11)) of some $i letters\", \"story\": \"a story $i\"}"; done >d.jsonl
for i in $(seq 12); do echo "{\"text\": \"another text $i\", \"story\": \"s $i\"}"; done >e.jsonl
for i in $(seq 12); do echo "{\"text\": \"text $i\", \"label\": 1}"; done >l.jsonl
for i in $(seq 12); do echo "{\"messages\": [{\"role\": \"user\", \"content\": \"$i+1=\"}, {\"role\": \"assistant\", \"content\": \"$((i + 1))\"}]}"; done >c.jsonl
# A template that writes a variable of its own.
shows_x='{% for m in messages %}{{ m.content }};{% endfor %}{{ x }}'
for i in $(seq 12); do echo "{\"prompt\": \"$i+1=\", \"completion\": \"$((i + 1))\"}"; done >p.jsonl
for i in $(seq 12); do echo "{\"text\": \"text $i\", \"label\": $((i % 2))}"; done >k.jsonl
for i in $(seq 12); do echo "{\"text\": \"text $i\", \"text_pair\": \"another one $i\", \"label\": 1}"; done >q.jsonl
printf 'text\nx one\ny two\nz three\nw four\n' >t.csv
for i in $(seq 12); do
  echo "{\"tokens\": [\"text\", \"$i$i\"], \"tags\": [\"O\", \"B-$((i % 2))\"]}"
done >tagged.jsonl
for i in $(seq 12); do
  echo "{\"prompt\": \"$i+1=\", \"completions\": [\"so\", \"$((i + 1))\"], \"labels\": [1, $((i % 2))]}"
done >steps.jsonl
cat >r.yaml <<R
model: {type: llama, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 2, max_position_embeddings: 64}
tokenizer: bytes
data: {train: d.jsonl, eval: {held_out: 0.25}, max_length: 32}
optimizer: {type: adamw, learning_rate: 1e-2}
trainer: {batch_size: 2, steps: 4, precision: fp32, eval_every: 2, log_every: 1, save: {every: 2, keep: 3}}
run: {folder: out, seed: 1}
R
sed -e '/^model:/c model: {type: bert, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2, max_position_embeddings: 64}' \
  -e 's/train: d.jsonl/train: k.jsonl/' -e '$a objective: {type: classification}' r.yaml >b.yaml
sed -e 's/k.jsonl/tagged.jsonl/; s/{type: classification}/{type: token_classification}/' b.yaml >tagged.yaml
sed -e 's/k.jsonl/steps.jsonl/; s/{type: classification}/{type: process_reward}/' b.yaml >steps.yaml
hone tokenizer train d.jsonl --kind word_piece --vocab-size 60 --min-frequency 1 --out pieces --quiet >/dev/null
sed -e 's/{type: classification}/{type: masked_lm, mlm_probability: 0.3, random_replace_prob: 0.2}/' \
  -e 's/k.jsonl/d.jsonl/; s/^tokenizer: bytes/tokenizer: pieces/' b.yaml >masked.yaml
for i in 1 2 3 4 5 6 7 8; do
  a="a$i b c d e f g h i j k l m n o p q r s t" n=$((i % 4))
  answer="\"text\": [\"${a:$((3 + n * 8)):5}\"], \"answer_start\": [$((3 + n * 8))]"
  [ $n = 3 ] && answer='"text": [], "answer_start": []'
  echo "{\"question\": \"b$i\", \"context\": \"$a\", \"answers\": {$answer}}"
done >squad.jsonl
sed -e 's/{type: classification}/{type: question_answering, doc_stride: 4}/; s/max_length: 32/max_length: 20/' \
  -e 's/k.jsonl/squad.jsonl/; s/^tokenizer: bytes/tokenizer: pieces/' b.yaml >squad.yaml
sed -e 's/eval: {held_out: 0.25}/eval: {all: squad.jsonl}/; s/doc_stride: 4/doc_stride: 4, null_threshold: 1000/' \
  squad.yaml >answered.yaml
for seed in 1 2; do
  hone init "m$seed" --model.type=llama --model.hidden_size=16 --model.intermediate_size=32 --model.num_hidden_layers=1 \
    --model.num_attention_heads=2 --model.max_position_embeddings=64 --tokenizer bytes --seed $seed >/dev/null
done
sed '/^model:/c model: {path: m1}' r.yaml | sed '/^tokenizer:/d' >m.yaml
sed -e 's/train: d.jsonl, eval: {held_out: 0.25}/train: [{path: d.jsonl, stream: true}]/' \
  -e 's/eval_every: 2/eval_every: 0/' r.yaml >windows.yaml
sed '$a adapter: {type: lora}' m.yaml >lora.yaml
hone train m.yaml --adapter=lora --optimizer.learning_rate=0.3 --run.folder=made --quiet >/dev/null 2>&1
for i in $(seq 12); do
  echo "{\"prompt\": \"$i+1=\", \"chosen\": \"$((i + 1))\", \"rejected\": \"$((i + 2))0\"}"
done >pairs.jsonl
sed -e 's/train: d.jsonl/train: pairs.jsonl/' -e '$a objective: {type: dpo}' m.yaml >dpo.yaml
sed 's/type: dpo/type: orpo/' dpo.yaml >orpo.yaml
sed 's/type: dpo/type: cpo/' dpo.yaml >cpo.yaml
for i in $(seq 12); do
  echo "{\"prompt\": \"$i+1=\", \"completion\": \"$((i + 1))\", \"label\": $((i % 3 > 0))}"
done >judged.jsonl
sed -e 's/type: dpo/type: kto/; s/pairs.jsonl/judged.jsonl/' dpo.yaml >kto.yaml
{ cat d.jsonl; cat d.jsonl; } >doubled.jsonl
sed 's/type: dpo/type: reward/' dpo.yaml >reward.yaml
for i in $(seq 12); do
  echo "{\"query\": \"$i+1=\", \"positive\": \"$((i + 1))\", \"negative\": \"$((i * 7 % 5)) or so\"}"
done >near.jsonl
sed 's/negative": "\([0-9]\)[^"]*"/score": \1/' near.jsonl >scored.jsonl
sed -e 's/type: dpo/type: embedding/; s/pairs.jsonl/near.jsonl/' dpo.yaml >near.yaml
for seed in 1 2; do  # guides are embedding models
  hone train near.yaml --model.path=m$seed --run.folder=guide$seed --optimizer.learning_rate=0.3 --quiet >/dev/null 2>&1
done
sed -e '/^model:/c model: {type: t5, d_model: 16, d_kv: 8, d_ff: 32, num_layers: 1, num_heads: 2}' \
  -e 's/train: d.jsonl/train: p.jsonl/' -e '$a objective: {type: seq2seq}' r.yaml >seq2seq.yaml
for i in $(seq 12); do
  scores="\"scores\": [$((i % 3)), $((i * 5 % 4))]"
  echo "{\"query\": \"$i+1=\", \"positive\": \"$((i + 1))\", \"negative\": \"$((i * 7 % 5))\", $scores}"
done >taught.jsonl
sed -e 's/type: embedding/type: embedding, loss_type: distill_kl_div/' -e 's/near.jsonl/taught.jsonl/' \
  near.yaml >taught.yaml
sed -e 's/type: embedding/type: embedding, loss_type: triplet, distance: euclidean/' near.yaml >triplet.yaml
sed -e 's/type: embedding/type: embedding, loss_type: gist, guide: guide1, temperature: 0.1/' near.yaml >gist.yaml
sed -e 's/type: embedding/type: embedding, hardness_mode: hard_negatives, hardness_strength: 5/' near.yaml >hard.yaml
sed -e 's/{type: classification}/{type: sparse_embedding, regularizer_warmup_steps: 3}/; s/k.jsonl/near.jsonl/' b.yaml >sparse.yaml
sed -e 's/type: sparse_embedding/type: sparse_embedding, hardness_mode: hard_negatives, hardness_strength: 5/' \
  sparse.yaml >sparse_hard.yaml
sed -e 's/type: sparse_embedding/type: sparse_embedding, loss_type: triplet/' sparse.yaml >sparse_triplet.yaml
sed -e 's/type: sparse_embedding/type: sparse_embedding, loss_type: distill_kl_div/; s/near.jsonl/taught.jsonl/' \
  sparse.yaml >sparse_taught.yaml
sed -e 's/{type: classification}/{type: late_interaction, embedding_dimension: 6}/; s/k.jsonl/near.jsonl/' \
  b.yaml >late.yaml
sed -e 's/dimension: 6/dimension: 6, query_expansion: min, query_expansion_length: 9, query_expansion_token: z/' \
  late.yaml >late_expanded.yaml
sed -e 's/dimension: 6/dimension: 6, skiplist_words: ["1"]/' late.yaml >late_skips.yaml
sed -e 's/dimension: 6/dimension: 6, loss_type: distill_kl_div/; s/near.jsonl/taught.jsonl/' late.yaml >late_taught.yaml
sed -e 's/{type: classification}/{type: ranking}/; s/k.jsonl/taught.jsonl/' b.yaml >ranking.yaml
sed -e 's/{type: classification}/{type: ranking, loss_type: multiple_negatives_ranking}/; s/k.jsonl/near.jsonl/' \
  b.yaml >drawn.yaml
sed '$a objective: {type: distillation, teacher: m2}' m.yaml >distill.yaml
hone teach m2 --data d.jsonl --out said.jsonl --top-k 3 --quiet
sed -e '$a objective: {type: distillation, teacher_logprobs: true}' -e 's/d.jsonl/said.jsonl/' m.yaml >said.yaml
for i in $(seq 12); do echo "{\"prompt\": \"$i+1=\", \"answer\": \"$((i + 1))\"}"; done >asked.jsonl
# Bytes are drawn, so that what is worth something has to be common: answers without a letter of these.
rewards='[{type: format, pattern: "[^a-z]*"}, {type: length}]'
sed -e 's/train: d.jsonl/train: asked.jsonl/' m.yaml >grpo.yaml
echo "objective: {type: grpo, rewards: $rewards, num_generations: 4, max_completion_length: 8}" >>grpo.yaml
sed 's/type: grpo/type: rloo/' grpo.yaml >rloo.yaml
sed "s/type: grpo, rewards: .*}], /type: sdft, /" grpo.yaml >sdft.yaml
sed 's/max_completion_length: 8/max_completion_length: 24, stop: [e, a, "0", i, o, "1"]/' grpo.yaml >stops.yaml
sed 's/stop:/environment: {command: sh turns.sh}, stop:/' stops.yaml >turns.yaml
echo "while read -r line; do echo '{\"text\": \"? \"}'; done" >turns.sh
sed 's/num_generations/num_iterations: 2, num_generations/' grpo.yaml >twice.yaml
for kind in online_dpo xpo nash_md ppo; do
  sed "s/type: grpo/type: $kind/; s/num_generations: 4, //" grpo.yaml >$kind.yaml
  sed "s/rewards: .*}], /judge: {command: sed s\/.*\/1\/}, /" $kind.yaml >$kind-judged.yaml
  for more in stops turns; do
    sed "s/type: grpo/type: $kind/; s/num_generations: 4, //" $more.yaml >$kind-$more.yaml
  done
done
for kind in cls:3 score:1 score2:1; do
  hone init "${kind%:*}" --model.type=llama --model.hidden_size=16 --model.intermediate_size=32 \
    --model.num_hidden_layers=1 --model.num_attention_heads=2 --model.max_position_embeddings=64 --tokenizer bytes \
    '--model.architectures=[LlamaForSequenceClassification]' --model.num_labels="${kind#*:}" --seed ${#kind} >/dev/null
done
hone init t5 --model.type=t5 --model.d_model=16 --model.d_kv=8 --model.d_ff=32 --model.num_layers=1 \
  --model.num_heads=2 --tokenizer bytes >/dev/null
hone init tok --model.type=llama --model.hidden_size=16 --model.intermediate_size=32 --model.num_hidden_layers=1 \
  --model.num_attention_heads=2 --model.max_position_embeddings=64 --tokenizer bytes \
  '--model.architectures=[LlamaForTokenClassification]' '--model.id2label={0: O, 1: B-0, 2: B-1, 3: I-0, 4: I-1}' \
  >/dev/null
hone init prm --model.type=llama --model.hidden_size=16 --model.intermediate_size=32 --model.num_hidden_layers=1 \
  --model.num_attention_heads=2 --model.max_position_embeddings=64 --tokenizer bytes \
  '--model.architectures=[LlamaForTokenClassification]' '--model.id2label={0: "false", 1: "true"}' >/dev/null
hone init answers --model.type=bert --model.hidden_size=16 --model.intermediate_size=32 --model.num_hidden_layers=1 \
  --model.num_attention_heads=2 --model.max_position_embeddings=64 --tokenizer pieces \
  '--model.architectures=[BertForQuestionAnswering]' >/dev/null
hone tokenizer train d.jsonl --kind bpe --vocab-size 300 --out words >/dev/null 2>&1
sizes='hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1'
hone init pictured --tokenizer bytes --model.type=gemma3 --model.boi_token_index=35 --model.image_token_index=36 \
  --model.eoi_token_index=37 --model.mm_tokens_per_image=4 \
  "--model.text_config={$sizes, num_attention_heads: 2, num_key_value_heads: 2, head_dim: 8}" \
  "--model.vision_config={$sizes, num_attention_heads: 1, image_size: 8, patch_size: 4, vision_use_head: false}" \
  >/dev/null
sed 's/path: m1/path: pictured/' m.yaml >pictured.yaml

# What can be told of a run: its messages, numbers, files and weights, without times, without what the process takes and
# without the recipe's echo.
times='s/[0-9.]+[kMG]? tokens\/s/T/g; s/ in [0-9.]+(ms|s|m|h)[0-9 ms]*/ in T/g; s/eta [0-9a-z ]+/eta T/g; s/[0-9.]+(ms|s)\b/T/g; s/about [0-9.]+ [kMG]B of memory/about T of memory/'
measured='time\/[a-z]+|epoch_seconds|elapsed_seconds|[a-z_]*memory[a-z_]*'
measured+='|throughput\/(step_seconds|[a-z]+_per_second|tflops|mfu)'
trace() {  # the recipe, then what follows "hone train"
  rm -rf out runs elsewhere tokens
  local code=0
  hone train "$@" >log 2>&1 || code=$?
  echo "exit $code"
  sed -E "$times" log
  # A note of a source's hash comes only some seconds after the source has changed.
  { find out runs elsewhere tokens -type f ! -name 'source-*.json' 2>/dev/null || true; } |
    sed -E 's/tokens-[0-9a-f]+/tokens/; s/(tfevents)\..*/\1/' | sort
  { cat out/metrics.jsonl 2>/dev/null || true; } | sed -E 's/"(step_seconds|eval_seconds|tokens_per_second|peak_memory_bytes)":[^,}]*//g' |
    sed -E "s/\"($measured)\":[^,}]*/\"\1\"/g"
  { cat out/{histograms,samples}.jsonl 2>/dev/null || true; }
  { cat out/checkpoints/step-*/{model,adapter_model}.safetensors out/checkpoints/step-*/tokenizer*.json 2>/dev/null || true; } | sha256sum
}

# ------------------------------------------------------------------------------------------------- options of a recipe
# option | recipe and options without it | the option. An option that changes time or memory only names its proof.
cat >options <<'R'
model.path | m.yaml | --model.path=m2
model.load.checkpoint | several checkpoints: tests/train/saves_test.cc |
model.load.optimizer | a run to start from: tests/train/saves_test.cc |
model.load.strict | weights that are missing: tests/train/saves_test.cc |
model.trainable | r.yaml | '--model.trainable=[lm_head]'
model.trainable[].match | r.yaml '--model.trainable=[{match: lm_head}]' | '--model.trainable=[{match: embed}]'
model.trainable[].from | r.yaml '--model.trainable=[lm_head, {match: embed}]' | '--model.trainable=[lm_head, {match: embed, from: 2}]'
model.trainable[].until | r.yaml '--model.trainable=[lm_head, {match: embed}]' | '--model.trainable=[lm_head, {match: embed, until: 2}]'
model.texts_only | pictured.yaml | --model.texts_only=true
model.quantization.type | lora.yaml | --model.quantization=int8
model.quantization.double_quant | lora.yaml --model.quantization=nf4 | --model.quantization.double_quant=false
model.quantization.skip | lora.yaml --model.quantization=nf4 | '--model.quantization.skip=[q_proj]'
model.<name> | r.yaml | --model.hidden_size=8
adapter | m.yaml | --adapter=lora
adapter.rank | lora.yaml | --adapter.rank=4
adapter.alpha | lora.yaml | --adapter.alpha=4
adapter.dropout | lora.yaml | --adapter.dropout=0.5
adapter.rslora | lora.yaml | --adapter.rslora=true
adapter.dora | lora.yaml | --adapter.dora=true
adapter.init | lora.yaml | --adapter.init=gaussian
adapter.targets | lora.yaml | '--adapter.targets=[q_proj]'
adapter.exclude | lora.yaml | '--adapter.exclude=[q_proj]'
adapter.modules_to_save | lora.yaml | '--adapter.modules_to_save=[lm_head]'
adapter.trainable_token_indices | lora.yaml | '--adapter.trainable_token_indices=[97]'
adapter.rank_pattern.<name> | lora.yaml | '--adapter.rank_pattern={q_proj: 2}'
adapter.alpha_pattern.<name> | lora.yaml | '--adapter.alpha_pattern={q_proj: 2}'
adapter.rank_pattern | lora.yaml | '--adapter.rank_pattern={q_proj: 2}'
adapter.alpha_pattern | lora.yaml | '--adapter.alpha_pattern={q_proj: 2}'
adapter.loraplus_lr_ratio | lora.yaml | --adapter.loraplus_lr_ratio=4
adapter.loraplus_lr_embedding | lora.yaml '--adapter.targets=[q_proj, embed_tokens]' | --adapter.loraplus_lr_embedding=1e-1
adapter.type | m.yaml | --adapter.type=lora
adapter.path | lora.yaml | --adapter.path=made
tokenizer | r.yaml | --tokenizer=words
data.train | r.yaml | --data.train=e.jsonl
data.train[].path | r.yaml | '--data.train=[{path: e.jsonl}]'
data.train[].weight | r.yaml | '--data.train=[{path: d.jsonl, weight: 2}]'
data.train[].columns | r.yaml | '--data.train=[{path: d.jsonl, columns: {text: story}}]'
data.train[].header | r.yaml --data.train=t.csv | '--data.train=[{path: t.csv, header: false, columns: {text: "1"}}]'
data.train[].max_samples | r.yaml | '--data.train=[{path: d.jsonl, max_samples: 12}]'
data.train[].ignore | r.yaml --data.train=l.jsonl | '--data.train=[{path: l.jsonl, ignore: [label]}]'
data.train[].image_folder | needs pictures: tests/data/pictures_test.cc |
data.train[].chat_template_kwargs | r.yaml --data.train=c.jsonl "--data.chat_template=$shows_x" | '--data.train=[{path: c.jsonl, chat_template_kwargs: {x: y}}]'
data.train[].teacher_temperature | said.yaml | '--data.train=[{path: said.jsonl, teacher_temperature: 2}]'
data.train[].stream | r.yaml --data.eval={} --trainer.eval_every=0 | '--data.train=[{path: d.jsonl, stream: true}]'
data.train[].source | r.yaml | '--data.train=[{path: d.jsonl, source: {type: text}}]'
data.eval.held_out | r.yaml | --data.eval.held_out=0.5
data.eval.<name> | r.yaml | --data.eval.test=e.jsonl
data.eval.<name>[].path | r.yaml --data.eval.test=e.jsonl | '--data.eval.test=[{path: d.jsonl}]'
data.eval.<name>[].weight | r.yaml --data.eval.test=e.jsonl | '--data.eval.test=[{path: e.jsonl, weight: 2}]'
data.eval.<name>[].columns | r.yaml --data.eval.test=e.jsonl | '--data.eval.test=[{path: e.jsonl, columns: {text: story}}]'
data.eval.<name>[].header | r.yaml --data.eval.test=t.csv | '--data.eval.test=[{path: t.csv, header: false, columns: {text: "1"}}]'
data.eval.<name>[].max_samples | r.yaml --data.eval.test=e.jsonl | '--data.eval.test=[{path: e.jsonl, max_samples: 3}]'
data.eval.<name>[].ignore | r.yaml --data.eval.test=l.jsonl | '--data.eval.test=[{path: l.jsonl, ignore: [label]}]'
data.eval.<name>[].image_folder | needs pictures: tests/data/pictures_test.cc |
data.eval.<name>[].chat_template_kwargs | r.yaml --data.train=c.jsonl "--data.chat_template=$shows_x" --data.eval.test=c.jsonl | '--data.eval.test=[{path: c.jsonl, chat_template_kwargs: {x: y}}]'
data.eval.<name>[].teacher_temperature | said.yaml --data.eval.test=said.jsonl | '--data.eval.test=[{path: said.jsonl, teacher_temperature: 2}]'
data.eval.<name>[].stream | r.yaml --data.eval.test=e.jsonl | '--data.eval.test=[{path: e.jsonl, stream: true}]'
data.eval.<name>[].source | r.yaml --data.eval.test=e.jsonl | '--data.eval.test=[{path: e.jsonl, source: {type: text}}]'
data.test.<name> | what hone test reads: tests/cli/test.test |
data.test.<name>[].path | what hone test reads: tests/cli/test.test |
data.test.<name>[].weight | what hone test reads: tests/cli/test.test |
data.test.<name>[].columns | what hone test reads: tests/cli/test.test |
data.test.<name>[].header | what hone test reads: tests/cli/test.test |
data.test.<name>[].max_samples | what hone test reads: tests/cli/test.test |
data.test.<name>[].ignore | what hone test reads: tests/cli/test.test |
data.test.<name>[].image_folder | what hone test reads: tests/cli/test.test |
data.test.<name>[].chat_template_kwargs | what hone test reads: tests/cli/test.test |
data.test.<name>[].teacher_temperature | what hone test reads: tests/cli/test.test |
data.test.<name>[].stream | what hone test reads: tests/cli/test.test |
data.test.<name>[].source | what hone test reads: tests/cli/test.test |
data.max_length | r.yaml | --data.max_length=16
data.length_warmup | r.yaml | '--data.length_warmup={steps: 3, from: 8}'
data.length_warmup.steps | r.yaml '--data.length_warmup={steps: 3, from: 8}' | --data.length_warmup.steps=2
data.length_warmup.from | r.yaml '--data.length_warmup={steps: 3, from: 8}' | --data.length_warmup.from=16
data.length_warmup.multiple | r.yaml '--data.length_warmup={steps: 3, from: 8}' | --data.length_warmup.multiple=16
data.length_warmup.power | r.yaml '--data.length_warmup={steps: 3, from: 8}' | --data.length_warmup.power=0.1
data.overlong | r.yaml --data.max_length=16 | --data.overlong=keep_start
data.packing | r.yaml --data.max_length=64 | --data.packing=none
data.collator | r.yaml | --data.collator=noise
data.shuffle | r.yaml | --data.shuffle=false
data.deduplicate | r.yaml --data.train=doubled.jsonl | --data.deduplicate=true
data.append_eos | r.yaml | --data.append_eos=false
data.loss | r.yaml --data.train=p.jsonl | --data.loss=all
data.chat_template_kwargs | r.yaml --data.train=c.jsonl "--data.chat_template=$shows_x" | '--data.chat_template_kwargs={x: y}'
data.chat_template | r.yaml --data.train=c.jsonl --data.chat_template=zephyr | --data.chat_template=alpaca
data.stream_window | windows.yaml | --data.stream_window=2
data.cache | r.yaml | --data.cache=tokens
parallel.fsdp | needs ranks: tests/train/together_test.cc, tests/cli/launch_test.sh |
parallel.context | needs ranks: tests/train/context_test.cc, tests/train/context_runs_test.cc |
parallel.tensor | needs ranks: tests/train/tensor_test.cc, tests/train/tensor_runs_test.cc |
objective | r.yaml | --objective.type=dpo
objective.causal_lm.loss_type | r.yaml | --objective.loss_type=dft
objective.causal_lm.eaft_alpha | r.yaml --objective.loss_type=eaft | --objective.eaft_alpha=2
objective.causal_lm.eaft_k | r.yaml --objective.loss_type=eaft | --objective.eaft_k=3
objective.causal_lm.label_smoothing | r.yaml | --objective.label_smoothing=0.1
objective.causal_lm.z_loss | r.yaml | --objective.z_loss=0.1
objective.causal_lm.metrics | r.yaml | '--objective.metrics=[accuracy]'
objective.dpo.loss_type | dpo.yaml | --objective.loss_type=ipo
objective.dpo.loss_weights | dpo.yaml | '--objective.loss_weights=[0.5]'
objective.dpo.discopop_tau | dpo.yaml --objective.loss_type=discopop | --objective.discopop_tau=0.5
objective.dpo.beta | dpo.yaml | --objective.beta=0.5
objective.dpo.label_smoothing | dpo.yaml | --objective.label_smoothing=0.2
objective.dpo.rpo_alpha | dpo.yaml | --objective.rpo_alpha=1
objective.dpo.ld_alpha | dpo.yaml | --objective.ld_alpha=0
objective.dpo.f_divergence_type | dpo.yaml | --objective.f_divergence_type=forward_kl
objective.dpo.f_alpha_divergence_coef | dpo.yaml --objective.f_divergence_type=alpha_divergence | --objective.f_alpha_divergence_coef=2
objective.dpo.use_weighting | dpo.yaml | --objective.use_weighting=true
objective.dpo.reference_sync_steps | dpo.yaml | --objective.reference_sync_steps=1
objective.dpo.reference_mixup_alpha | dpo.yaml --objective.reference_sync_steps=1 | --objective.reference_mixup_alpha=0.1
objective.dpo.reference_free | dpo.yaml | --objective.reference_free=true
objective.dpo.reference | dpo.yaml | --objective.reference=m2
objective.dpo.precompute_reference | dpo.yaml | --objective.precompute_reference=true
objective.orpo.beta | orpo.yaml | --objective.beta=0.5
objective.cpo.loss_type | cpo.yaml | --objective.loss_type=hinge
objective.cpo.beta | cpo.yaml | --objective.beta=0.5
objective.cpo.label_smoothing | cpo.yaml | --objective.label_smoothing=0.2
objective.cpo.cpo_alpha | cpo.yaml | --objective.cpo_alpha=0
objective.cpo.simpo_gamma | cpo.yaml --objective.loss_type=simpo | --objective.simpo_gamma=1
objective.cpo.alpha | cpo.yaml --objective.loss_type=simpo | --objective.alpha=0.25
objective.kto.loss_type | kto.yaml | --objective.loss_type=apo_zero_unpaired
objective.kto.beta | kto.yaml | --objective.beta=0.5
objective.kto.desirable_weight | kto.yaml | --objective.desirable_weight=2
objective.kto.undesirable_weight | kto.yaml | --objective.undesirable_weight=2
objective.kto.reference_sync_steps | kto.yaml | --objective.reference_sync_steps=1
objective.kto.reference_mixup_alpha | kto.yaml --objective.reference_sync_steps=1 | --objective.reference_mixup_alpha=0.1
objective.kto.reference | kto.yaml | --objective.reference=m2
objective.kto.precompute_reference | kto.yaml --objective.loss_type=apo_zero_unpaired | --objective.precompute_reference=true
objective.embedding.loss_type | near.yaml | --objective.loss_type=triplet
objective.embedding.temperature | near.yaml | --objective.temperature=0.5
objective.embedding.teacher_temperature | taught.yaml | --objective.teacher_temperature=3
objective.embedding.margin | triplet.yaml | --objective.margin=3
objective.embedding.distance | triplet.yaml | --objective.distance=manhattan
objective.embedding.pooling | near.yaml | --objective.pooling=mean
objective.embedding.normalize | triplet.yaml | --objective.normalize=false
objective.embedding.query_prompt | near.yaml | '--objective.query_prompt=Q: '
objective.embedding.document_prompt | near.yaml | '--objective.document_prompt=D: '
objective.embedding.matryoshka_dims | near.yaml | '--objective.matryoshka_dims=[16, 4]'
objective.embedding.matryoshka_weights | near.yaml --objective.matryoshka_dims=[4,8] | --objective.matryoshka_weights=[1,3]
objective.embedding.directions | near.yaml | '--objective.directions=[query_to_doc, doc_to_query]'
objective.embedding.partition_mode | near.yaml '--objective.directions=[query_to_doc, doc_to_query]' | --objective.partition_mode=per_direction
objective.embedding.hardness_mode | hard.yaml | --objective.hardness_mode=all_negatives
objective.embedding.hardness_strength | hard.yaml | --objective.hardness_strength=9
objective.embedding.guide | gist.yaml | --objective.guide=guide2
objective.embedding.margin_strategy | gist.yaml --objective.margin=0.2 | --objective.margin_strategy=relative
objective.embedding.contrast_anchors | gist.yaml --objective.margin=0 | --objective.contrast_anchors=false
objective.embedding.contrast_positives | gist.yaml | --objective.contrast_positives=false
objective.late_interaction.loss_type | late_taught.yaml | --objective.loss_type=margin_mse
objective.late_interaction.temperature | late.yaml | --objective.temperature=5
objective.late_interaction.teacher_temperature | late_taught.yaml | --objective.teacher_temperature=9
objective.late_interaction.similarity_fn_name | late.yaml | --objective.similarity_fn_name=meanmaxsim
objective.late_interaction.embedding_dimension | late.yaml | --objective.embedding_dimension=7
objective.late_interaction.normalize | late.yaml | --objective.normalize=false
objective.late_interaction.query_length | late.yaml | --objective.query_length=2
objective.late_interaction.document_length | late.yaml | --objective.document_length=2
objective.late_interaction.query_expansion | late_expanded.yaml --objective.query_expansion_length=3 | --objective.query_expansion=fixed
objective.late_interaction.query_expansion_length | late_expanded.yaml | --objective.query_expansion_length=12
objective.late_interaction.query_expansion_attend | late_expanded.yaml | --objective.query_expansion_attend=true
objective.late_interaction.query_expansion_token | late_expanded.yaml | --objective.query_expansion_token=y
objective.late_interaction.skiplist_words | late_skips.yaml | '--objective.skiplist_words=["2"]'
objective.late_interaction.skiplist_tasks | late_skips.yaml | '--objective.skiplist_tasks=[query]'
objective.late_interaction.query_prompt | late.yaml | '--objective.query_prompt=Q: '
objective.late_interaction.document_prompt | late.yaml | '--objective.document_prompt=D: '
objective.sparse_embedding.loss_type | sparse.yaml | --objective.loss_type=triplet
objective.sparse_embedding.temperature | sparse.yaml | --objective.temperature=5
objective.sparse_embedding.teacher_temperature | sparse_taught.yaml | --objective.teacher_temperature=9
objective.sparse_embedding.margin | sparse_triplet.yaml | --objective.margin=9
objective.sparse_embedding.distance | sparse_triplet.yaml | --objective.distance=cosine
objective.sparse_embedding.directions | sparse.yaml | '--objective.directions=[query_to_doc, doc_to_query]'
objective.sparse_embedding.partition_mode | sparse.yaml '--objective.directions=[query_to_doc, doc_to_query]' | --objective.partition_mode=per_direction
objective.sparse_embedding.hardness_mode | sparse_hard.yaml | --objective.hardness_mode=all_negatives
objective.sparse_embedding.hardness_strength | sparse_hard.yaml | --objective.hardness_strength=9
objective.sparse_embedding.document_regularizer_weight | sparse.yaml | --objective.document_regularizer_weight=1
objective.sparse_embedding.query_regularizer_weight | sparse.yaml | --objective.query_regularizer_weight=1
objective.sparse_embedding.document_regularizer_threshold | sparse.yaml | --objective.document_regularizer_threshold=1000
objective.sparse_embedding.query_regularizer_threshold | sparse.yaml | --objective.query_regularizer_threshold=1000
objective.sparse_embedding.use_document_regularizer_only | sparse.yaml | --objective.use_document_regularizer_only=true
objective.sparse_embedding.regularizer_warmup_steps | sparse.yaml | --objective.regularizer_warmup_steps=1
objective.sparse_embedding.regularizer_schedule | sparse.yaml | --objective.regularizer_schedule=linear
objective.sparse_embedding.pooling_strategy | sparse.yaml | --objective.pooling_strategy=sum
objective.sparse_embedding.activation_function | sparse.yaml | --objective.activation_function=log1p_relu
objective.sparse_embedding.query_prompt | sparse.yaml | '--objective.query_prompt=Q: '
objective.sparse_embedding.document_prompt | sparse.yaml | '--objective.document_prompt=D: '
objective.seq2seq.max_target_length | seq2seq.yaml | --objective.max_target_length=1
objective.seq2seq.src_lang | seq2seq.yaml | --objective.src_lang=en_XX
objective.seq2seq.tgt_lang | seq2seq.yaml | --objective.tgt_lang=en_XX
objective.seq2seq.label_smoothing | seq2seq.yaml | --objective.label_smoothing=0.1
objective.seq2seq.z_loss | seq2seq.yaml | --objective.z_loss=0.1
objective.reward.center_rewards_coefficient | reward.yaml | --objective.center_rewards_coefficient=0.5
objective.distillation.teacher | distill.yaml | --objective.teacher=m1
objective.distillation.teacher_logprobs | r.yaml --data.train=said.jsonl | '--objective={type: distillation, teacher_logprobs: true}'
objective.distillation.top_k | said.yaml | --objective.top_k=2
objective.distillation.teacher_temperature | said.yaml | --objective.teacher_temperature=2
objective.distillation.normalize_topk | said.yaml | --objective.normalize_topk
objective.distillation.temperature | distill.yaml | --objective.temperature=2
objective.distillation.beta | distill.yaml | --objective.beta=0.5
objective.distillation.alpha | distill.yaml | --objective.alpha=0.5
objective.distillation.lmbda | distill.yaml --data.train=p.jsonl | --objective.lmbda=1
objective.distillation.top_p | distill.yaml --data.train=p.jsonl --objective.lmbda=1 | --objective.top_p=0.5
objective.distillation.min_p | distill.yaml --data.train=p.jsonl --objective.lmbda=1 | --objective.min_p=0.9
objective.distillation.repetition_penalty | distill.yaml --data.train=p.jsonl --objective.lmbda=1 | --objective.repetition_penalty=2
objective.distillation.log_completions | distill.yaml --data.train=p.jsonl --objective.lmbda=1 | --objective.log_completions=true
objective.distillation.num_completions_to_print | distill.yaml --data.train=p.jsonl --objective.lmbda=1 --objective.log_completions=true | --objective.num_completions_to_print=2
objective.distillation.max_completion_length | distill.yaml --data.train=p.jsonl --objective.lmbda=1 | --objective.max_completion_length=4
objective.distillation.generation_batch_size | memory: an answer's bits are its own: tests/train/distillation_test.cc |
objective.grpo.num_generations | grpo.yaml | --objective.num_generations=6
objective.grpo.num_generations_eval | grpo.yaml | --objective.num_generations_eval=2
objective.grpo.max_completion_length | grpo.yaml | --objective.max_completion_length=6
objective.grpo.temperature | grpo.yaml | --objective.temperature=0.5
objective.grpo.top_p | grpo.yaml | --objective.top_p=0.5
objective.grpo.top_k | grpo.yaml | --objective.top_k=20
objective.grpo.min_p | grpo.yaml | --objective.min_p=0.9
objective.grpo.repetition_penalty | grpo.yaml | --objective.repetition_penalty=2
objective.grpo.stop | grpo.yaml | '--objective.stop=[" ", e, a, "0", i]'
objective.grpo.regex | grpo.yaml | '--objective.regex=\d{1,3}'
objective.grpo.generation_batch_size | memory alone: tests/objectives/rollouts_test.cc |
objective.grpo.rewards | grpo.yaml | '--objective.rewards=[{type: format, pattern: "[^0-9]*"}]'
objective.grpo.reward_weights | grpo.yaml | '--objective.reward_weights=[1, 3]'
objective.grpo.environment.command | stops.yaml | '--objective.environment.command=sh turns.sh'
objective.grpo.environment.max_turns | turns.yaml | --objective.environment.max_turns=1
objective.grpo.environment.timeout | time alone: tests/base/dialogue_test.cc |
objective.grpo.environment.retries | faults alone: tests/train/environment_test.cc |
objective.grpo.environment.keep_turns | time and memory alone: tests/objectives/conversations_test.cc |
objective.grpo.log_completions | grpo.yaml | --objective.log_completions=true
objective.grpo.num_completions_to_print | grpo.yaml --objective.log_completions=true | --objective.num_completions_to_print=2
objective.grpo.num_iterations | grpo.yaml | --objective.num_iterations=2
objective.grpo.num_minibatches | grpo.yaml --trainer.accumulate=2 | --objective.num_minibatches=2
objective.grpo.epsilon | twice.yaml --optimizer.learning_rate=0.1 | --objective.epsilon=1e-4
objective.grpo.epsilon_high | twice.yaml --optimizer.learning_rate=0.1 | --objective.epsilon_high=1e-4
objective.grpo.reference_sync_steps | grpo.yaml --objective.beta=0.5 | --objective.reference_sync_steps=1
objective.grpo.reference_mixup_alpha | grpo.yaml --objective.beta=0.5 --objective.reference_sync_steps=1 | --objective.reference_mixup_alpha=0.1
objective.grpo.reference | grpo.yaml --objective.beta=0.5 | --objective.reference=m2
objective.grpo.mask_truncated_completions | grpo.yaml '--objective.stop=[e, a, "0"]' | --objective.mask_truncated_completions=true
objective.grpo.resample | grpo.yaml --objective.num_generations=2 | --objective.resample=3
objective.grpo.replay_buffer_size | grpo.yaml --objective.num_generations=2 | --objective.replay_buffer_size=4
objective.grpo.beta | grpo.yaml | --objective.beta=0.5
objective.grpo.loss_type | grpo.yaml | --objective.loss_type=luspo
objective.grpo.scale_rewards | grpo.yaml | --objective.scale_rewards=none
objective.grpo.multi_objective_aggregation | grpo.yaml | --objective.multi_objective_aggregation=normalize_then_sum
objective.grpo.importance_sampling_level | twice.yaml --optimizer.learning_rate=0.1 | --objective.importance_sampling_level=sequence
objective.grpo.delta | twice.yaml --optimizer.learning_rate=0.3 | --objective.delta=1.0001
objective.grpo.off_policy_mask_threshold | twice.yaml --optimizer.learning_rate=0.3 | --objective.off_policy_mask_threshold=1e-6
objective.grpo.top_entropy_quantile | grpo.yaml | --objective.top_entropy_quantile=0.2
objective.grpo.use_bias_correction_kl | twice.yaml --objective.beta=0.5 | --objective.use_bias_correction_kl=false
objective.grpo.sapo_temperature_pos | twice.yaml --objective.loss_type=sapo --optimizer.learning_rate=0.1 | --objective.sapo_temperature_pos=3
objective.grpo.sapo_temperature_neg | twice.yaml --objective.loss_type=sapo --optimizer.learning_rate=0.1 | --objective.sapo_temperature_neg=3
objective.grpo.vespo_k_pos | twice.yaml --objective.loss_type=vespo --optimizer.learning_rate=0.1 | --objective.vespo_k_pos=1
objective.grpo.vespo_lambda_pos | twice.yaml --objective.loss_type=vespo --optimizer.learning_rate=0.1 | --objective.vespo_lambda_pos=1
objective.grpo.vespo_k_neg | twice.yaml --objective.loss_type=vespo --optimizer.learning_rate=0.1 | --objective.vespo_k_neg=1
objective.grpo.vespo_lambda_neg | twice.yaml --objective.loss_type=vespo --optimizer.learning_rate=0.1 | --objective.vespo_lambda_neg=1
objective.grpo.entropy_coef | grpo.yaml | --objective.entropy_coef=0.5
objective.grpo.use_adaptive_entropy | grpo.yaml --objective.entropy_coef=0.5 | --objective.use_adaptive_entropy=true
objective.grpo.entropy_coef_min | grpo.yaml --objective.use_adaptive_entropy=true --objective.entropy_target=0 | --objective.entropy_coef_min=-1
objective.grpo.entropy_coef_max | grpo.yaml --objective.use_adaptive_entropy=true --objective.entropy_target=100 --objective.entropy_coef_delta=0.5 | --objective.entropy_coef_max=0.6
objective.grpo.entropy_coef_delta | grpo.yaml --objective.use_adaptive_entropy=true --objective.entropy_target=100 --objective.entropy_coef_delta=0.5 | --objective.entropy_coef_delta=0.25
objective.grpo.entropy_target | grpo.yaml --objective.use_adaptive_entropy=true --objective.entropy_target=100 --objective.entropy_coef_delta=0.5 | --objective.entropy_target=0.1
objective.rewards.accuracy.pattern | needs right answers: tests/rewards/accuracy_test.cc |
objective.rewards.accuracy.after | likewise |
objective.rewards.accuracy.case_sensitive | likewise |
objective.rewards.accuracy.right | likewise |
objective.rewards.accuracy.wrong | grpo.yaml '--objective.rewards=[{type: accuracy}]' | --objective.rewards.0.wrong=-1
objective.rewards.command.command | grpo.yaml '--objective.rewards=[{type: command, command: "sed s/.*/1/"}]' | '--objective.rewards.0.command=sed s/.*/2/'
objective.rewards.command.timeout | grpo.yaml '--objective.rewards=[{type: command, command: "sleep 0.3; sed s/.*/1/"}]' | --objective.rewards.0.timeout=0.05
objective.rewards.command.retries | grpo.yaml '--objective.rewards=[{type: command, command: "[ -e x ] && rm x && exec sed s/.*/1/; touch x; exit 1"}]' | --objective.rewards.0.retries=1
objective.rewards.cosine.pattern | needs right answers: tests/rewards/shape_test.cc |
objective.rewards.cosine.after | likewise |
objective.rewards.cosine.case_sensitive | likewise |
objective.rewards.cosine.max_len | grpo.yaml '--objective.rewards=[{type: cosine}]' | --objective.rewards.0.max_len=30
objective.rewards.cosine.min_value_wrong | grpo.yaml '--objective.rewards=[{type: cosine, max_len: 30}]' | --objective.rewards.0.min_value_wrong=-3
objective.rewards.cosine.max_value_wrong | grpo.yaml '--objective.rewards=[{type: cosine}]' | --objective.rewards.0.max_value_wrong=-0.9
objective.rewards.cosine.min_value_correct | needs right answers: tests/rewards/trl_golden_test.cc |
objective.rewards.cosine.max_value_correct | likewise |
objective.rewards.format.pattern | grpo.yaml | '--objective.rewards.0.pattern=[^0-9]*'
objective.rewards.length.max_completion_len | grpo.yaml | --objective.rewards.1.max_completion_len=9
objective.rewards.length.soft_punish_cache | grpo.yaml '--objective.stop=[e, a, "0", i]' | --objective.rewards.1.soft_punish_cache=8
objective.rewards.model.path | grpo.yaml '--objective.rewards=[{type: model, path: score}]' | --objective.rewards.0.path=score2
objective.rewards.model.batch_size | time and memory alone: tests/rewards/model_test.cc |
objective.rewards.repetition.ngram_size | grpo.yaml '--objective.rewards=[{type: repetition, ngram_size: 1}]' --objective.max_completion_length=32 | --objective.rewards.0.ngram_size=2
objective.rewards.repetition.max_penalty | grpo.yaml '--objective.rewards=[{type: repetition, ngram_size: 1}]' --objective.max_completion_length=32 | --objective.rewards.0.max_penalty=-3
objective.nash_md.max_completion_length | nash_md.yaml | --objective.max_completion_length=6
objective.nash_md.temperature | nash_md.yaml | --objective.temperature=0.5
objective.nash_md.top_p | nash_md.yaml | --objective.top_p=0.5
objective.nash_md.top_k | nash_md.yaml | --objective.top_k=20
objective.nash_md.min_p | nash_md.yaml | --objective.min_p=0.9
objective.nash_md.repetition_penalty | nash_md.yaml | --objective.repetition_penalty=2
objective.nash_md.stop | nash_md.yaml | '--objective.stop=[" ", e, a, "0", i]'
objective.nash_md.regex | nash_md.yaml | '--objective.regex=\d{1,3}'
objective.nash_md.generation_batch_size | memory alone: tests/objectives/rollouts_test.cc |
objective.nash_md.rewards | nash_md.yaml | '--objective.rewards=[{type: format, pattern: "[^0-9]*"}]'
objective.nash_md.reward_weights | nash_md.yaml | '--objective.reward_weights=[1, 3]'
objective.nash_md.environment.command | refused: tests/train/online_runs_test.cc |
objective.nash_md.environment.max_turns | refused: tests/train/online_runs_test.cc |
objective.nash_md.environment.timeout | refused: tests/train/online_runs_test.cc |
objective.nash_md.environment.retries | refused: tests/train/online_runs_test.cc |
objective.nash_md.environment.keep_turns | refused: tests/train/online_runs_test.cc |
objective.nash_md.log_completions | nash_md.yaml | --objective.log_completions=true
objective.nash_md.num_completions_to_print | nash_md.yaml --objective.log_completions=true | --objective.num_completions_to_print=2
objective.nash_md.missing_eos_penalty | nash_md.yaml '--objective.stop=[e, a, "0"]' | --objective.missing_eos_penalty=0.5
objective.nash_md.reference | nash_md.yaml | --objective.reference=m2
objective.nash_md.judge.command | nash_md-judged.yaml | '--objective.judge.command=sed s/.*/0/'
objective.nash_md.judge.timeout | nash_md-judged.yaml '--objective.judge.command=sleep 0.3; sed s/.*/1/' | --objective.judge.timeout=0.05
objective.nash_md.judge.retries | nash_md-judged.yaml '--objective.judge.command=[ -e x ] && rm x && exec sed s/.*/1/; touch x; exit 1' | --objective.judge.retries=1
objective.nash_md.beta | nash_md.yaml --optimizer.learning_rate=0.1 | --objective.beta=0.5
objective.nash_md.mixture_coef | nash_md.yaml --objective.reference=m2 | --objective.mixture_coef=1
objective.online_dpo.max_completion_length | online_dpo.yaml | --objective.max_completion_length=6
objective.online_dpo.temperature | online_dpo.yaml | --objective.temperature=0.5
objective.online_dpo.top_p | online_dpo.yaml | --objective.top_p=0.5
objective.online_dpo.top_k | online_dpo.yaml | --objective.top_k=20
objective.online_dpo.min_p | online_dpo.yaml | --objective.min_p=0.9
objective.online_dpo.repetition_penalty | online_dpo.yaml | --objective.repetition_penalty=2
objective.online_dpo.stop | online_dpo.yaml | '--objective.stop=[" ", e, a, "0", i]'
objective.online_dpo.regex | online_dpo.yaml | '--objective.regex=\d{1,3}'
objective.online_dpo.generation_batch_size | memory alone: tests/objectives/rollouts_test.cc |
objective.online_dpo.rewards | online_dpo.yaml | '--objective.rewards=[{type: format, pattern: "[^0-9]*"}]'
objective.online_dpo.reward_weights | online_dpo.yaml | '--objective.reward_weights=[1, 3]'
objective.online_dpo.environment.command | online_dpo-stops.yaml | '--objective.environment.command=sh turns.sh'
objective.online_dpo.environment.max_turns | online_dpo-turns.yaml | --objective.environment.max_turns=1
objective.online_dpo.environment.timeout | time alone: tests/base/dialogue_test.cc |
objective.online_dpo.environment.retries | faults alone: tests/train/environment_test.cc |
objective.online_dpo.environment.keep_turns | time and memory alone: tests/objectives/conversations_test.cc |
objective.online_dpo.log_completions | online_dpo.yaml | --objective.log_completions=true
objective.online_dpo.num_completions_to_print | online_dpo.yaml --objective.log_completions=true | --objective.num_completions_to_print=2
objective.online_dpo.missing_eos_penalty | online_dpo.yaml '--objective.stop=[e, a, "0"]' | --objective.missing_eos_penalty=0.5
objective.online_dpo.reference | online_dpo.yaml | --objective.reference=m2
objective.online_dpo.judge.command | online_dpo-judged.yaml | '--objective.judge.command=sed s/.*/0/'
objective.online_dpo.judge.timeout | online_dpo-judged.yaml '--objective.judge.command=sleep 0.3; sed s/.*/1/' | --objective.judge.timeout=0.05
objective.online_dpo.judge.retries | online_dpo-judged.yaml '--objective.judge.command=[ -e x ] && rm x && exec sed s/.*/1/; touch x; exit 1' | --objective.judge.retries=1
objective.online_dpo.beta | online_dpo.yaml --optimizer.learning_rate=0.1 | --objective.beta=0.5
objective.online_dpo.loss_type | online_dpo.yaml | --objective.loss_type=ipo
objective.ppo.max_completion_length | ppo.yaml | --objective.max_completion_length=6
objective.ppo.temperature | ppo.yaml | --objective.temperature=0.5
objective.ppo.top_p | ppo.yaml | --objective.top_p=0.5
objective.ppo.top_k | ppo.yaml | --objective.top_k=20
objective.ppo.min_p | ppo.yaml | --objective.min_p=0.9
objective.ppo.repetition_penalty | ppo.yaml | --objective.repetition_penalty=2
objective.ppo.stop | ppo.yaml | '--objective.stop=[" ", e, a, "0", i]'
objective.ppo.regex | ppo.yaml | '--objective.regex=\d{1,3}'
objective.ppo.generation_batch_size | memory alone: tests/objectives/rollouts_test.cc |
objective.ppo.rewards | ppo.yaml | '--objective.rewards=[{type: format, pattern: "[^0-9]*"}]'
objective.ppo.reward_weights | ppo.yaml | '--objective.reward_weights=[1, 3]'
objective.ppo.environment.command | ppo-stops.yaml | '--objective.environment.command=sh turns.sh'
objective.ppo.environment.max_turns | ppo-turns.yaml | --objective.environment.max_turns=1
objective.ppo.environment.timeout | time alone: tests/base/dialogue_test.cc |
objective.ppo.environment.retries | faults alone: tests/train/environment_test.cc |
objective.ppo.environment.keep_turns | time and memory alone: tests/objectives/conversations_test.cc |
objective.ppo.log_completions | ppo.yaml | --objective.log_completions=true
objective.ppo.num_completions_to_print | ppo.yaml --objective.log_completions=true | --objective.num_completions_to_print=2
objective.ppo.missing_eos_penalty | ppo.yaml '--objective.stop=[e, a, "0"]' | --objective.missing_eos_penalty=0.5
objective.ppo.reference | ppo.yaml --objective.kl_coef=0.5 | --objective.reference=m2
objective.ppo.num_generations | ppo.yaml | --objective.num_generations=3
objective.ppo.num_generations_eval | ppo.yaml | --objective.num_generations_eval=3
objective.ppo.num_ppo_epochs | ppo.yaml | --objective.num_ppo_epochs=1
objective.ppo.num_mini_batches | ppo.yaml --trainer.accumulate=2 | --objective.num_mini_batches=2
objective.ppo.kl_coef | ppo.yaml --objective.reference=m2 | --objective.kl_coef=0.5
objective.ppo.kl_estimator | ppo.yaml --objective.reference=m2 | --objective.kl_estimator=k3
objective.ppo.cliprange | ppo.yaml --optimizer.learning_rate=0.1 | --objective.cliprange=1e-4
objective.ppo.cliprange_value | ppo.yaml --optimizer.learning_rate=0.1 | --objective.cliprange_value=1e-4
objective.ppo.vf_coef | ppo.yaml | --objective.vf_coef=2
objective.ppo.gamma | ppo.yaml | --objective.gamma=0.5
objective.ppo.lam | ppo.yaml | --objective.lam=0.5
objective.ppo.whiten_rewards | ppo.yaml | --objective.whiten_rewards=true
objective.ppo.value_model | ppo.yaml | --objective.value_model=score
objective.xpo.max_completion_length | xpo.yaml | --objective.max_completion_length=6
objective.xpo.temperature | xpo.yaml | --objective.temperature=0.5
objective.xpo.top_p | xpo.yaml | --objective.top_p=0.5
objective.xpo.top_k | xpo.yaml | --objective.top_k=20
objective.xpo.min_p | xpo.yaml | --objective.min_p=0.9
objective.xpo.repetition_penalty | xpo.yaml | --objective.repetition_penalty=2
objective.xpo.stop | xpo.yaml | '--objective.stop=[" ", e, a, "0", i]'
objective.xpo.regex | xpo.yaml | '--objective.regex=\d{1,3}'
objective.xpo.generation_batch_size | memory alone: tests/objectives/rollouts_test.cc |
objective.xpo.rewards | xpo.yaml | '--objective.rewards=[{type: format, pattern: "[^0-9]*"}]'
objective.xpo.reward_weights | xpo.yaml | '--objective.reward_weights=[1, 3]'
objective.xpo.environment.command | refused: tests/train/online_runs_test.cc |
objective.xpo.environment.max_turns | refused: tests/train/online_runs_test.cc |
objective.xpo.environment.timeout | refused: tests/train/online_runs_test.cc |
objective.xpo.environment.retries | refused: tests/train/online_runs_test.cc |
objective.xpo.environment.keep_turns | refused: tests/train/online_runs_test.cc |
objective.xpo.log_completions | xpo.yaml | --objective.log_completions=true
objective.xpo.num_completions_to_print | xpo.yaml --objective.log_completions=true | --objective.num_completions_to_print=2
objective.xpo.missing_eos_penalty | xpo.yaml '--objective.stop=[e, a, "0"]' | --objective.missing_eos_penalty=0.5
objective.xpo.reference | xpo.yaml | --objective.reference=m2
objective.xpo.judge.command | xpo-judged.yaml | '--objective.judge.command=sed s/.*/0/'
objective.xpo.judge.timeout | xpo-judged.yaml '--objective.judge.command=sleep 0.3; sed s/.*/1/' | --objective.judge.timeout=0.05
objective.xpo.judge.retries | xpo-judged.yaml '--objective.judge.command=[ -e x ] && rm x && exec sed s/.*/1/; touch x; exit 1' | --objective.judge.retries=1
objective.xpo.beta | xpo.yaml --optimizer.learning_rate=0.1 | --objective.beta=0.5
objective.xpo.loss_type | xpo.yaml | --objective.loss_type=ipo
objective.xpo.alpha | xpo.yaml | --objective.alpha=0.5
objective.rloo.num_generations | rloo.yaml | --objective.num_generations=6
objective.rloo.num_generations_eval | rloo.yaml | --objective.num_generations_eval=2
objective.rloo.max_completion_length | rloo.yaml | --objective.max_completion_length=6
objective.rloo.temperature | rloo.yaml | --objective.temperature=0.5
objective.rloo.top_p | rloo.yaml | --objective.top_p=0.5
objective.rloo.top_k | rloo.yaml | --objective.top_k=20
objective.rloo.min_p | rloo.yaml | --objective.min_p=0.9
objective.rloo.repetition_penalty | rloo.yaml | --objective.repetition_penalty=2
objective.rloo.stop | rloo.yaml | '--objective.stop=[" ", e, a, "0", i]'
objective.rloo.regex | rloo.yaml | '--objective.regex=\d{1,3}'
objective.rloo.generation_batch_size | memory alone: tests/objectives/rollouts_test.cc |
objective.rloo.rewards | rloo.yaml | '--objective.rewards=[{type: format, pattern: "[^0-9]*"}]'
objective.rloo.reward_weights | rloo.yaml | '--objective.reward_weights=[1, 3]'
objective.rloo.environment.command | stops.yaml --objective.type=rloo | '--objective.environment.command=sh turns.sh'
objective.rloo.environment.max_turns | turns.yaml --objective.type=rloo | --objective.environment.max_turns=1
objective.rloo.environment.timeout | time alone: tests/base/dialogue_test.cc |
objective.rloo.environment.retries | faults alone: tests/train/environment_test.cc |
objective.rloo.environment.keep_turns | time and memory alone: tests/objectives/conversations_test.cc |
objective.rloo.log_completions | rloo.yaml | --objective.log_completions=true
objective.rloo.num_completions_to_print | rloo.yaml --objective.log_completions=true | --objective.num_completions_to_print=2
objective.rloo.num_iterations | rloo.yaml | --objective.num_iterations=2
objective.rloo.num_minibatches | rloo.yaml --trainer.accumulate=2 | --objective.num_minibatches=2
objective.rloo.epsilon | rloo.yaml --objective.num_iterations=2 --optimizer.learning_rate=0.1 | --objective.epsilon=1e-4
objective.rloo.epsilon_high | rloo.yaml --objective.num_iterations=2 --optimizer.learning_rate=0.1 | --objective.epsilon_high=1e-4
objective.rloo.reference_sync_steps | rloo.yaml | --objective.reference_sync_steps=1
objective.rloo.reference_mixup_alpha | rloo.yaml --objective.reference_sync_steps=1 | --objective.reference_mixup_alpha=0.1
objective.rloo.reference | rloo.yaml | --objective.reference=m2
objective.rloo.mask_truncated_completions | rloo.yaml '--objective.stop=[e, a, "0"]' | --objective.mask_truncated_completions=true
objective.rloo.resample | rloo.yaml --objective.num_generations=2 | --objective.resample=3
objective.rloo.beta | rloo.yaml | --objective.beta=0.5
objective.rloo.normalize_advantages | rloo.yaml | --objective.normalize_advantages=true
objective.rloo.reward_clip_range | rloo.yaml | '--objective.reward_clip_range=[0, 0.5]'
objective.sdft.max_completion_length | sdft.yaml | --objective.max_completion_length=6
objective.sdft.temperature | sdft.yaml | --objective.temperature=0.5
objective.sdft.top_p | sdft.yaml | --objective.top_p=0.5
objective.sdft.top_k | sdft.yaml | --objective.top_k=20
objective.sdft.min_p | sdft.yaml | --objective.min_p=0.9
objective.sdft.repetition_penalty | sdft.yaml | --objective.repetition_penalty=2
objective.sdft.stop | sdft.yaml | '--objective.stop=[" ", e, a, "0", i]'
objective.sdft.regex | sdft.yaml | '--objective.regex=\d{1,3}'
objective.sdft.generation_batch_size | memory alone: tests/objectives/rollouts_test.cc |
objective.sdft.log_completions | sdft.yaml | --objective.log_completions=true
objective.sdft.num_completions_to_print | sdft.yaml --objective.log_completions=true | --objective.num_completions_to_print=2
objective.sdft.num_generations | sdft.yaml | --objective.num_generations=2
objective.sdft.num_generations_eval | sdft.yaml --data.eval=asked.jsonl | --objective.num_generations_eval=2
objective.sdft.teacher_prompt_template | sdft.yaml | --objective.teacher_prompt_template='{privileged_context}{prompt}'
objective.sdft.distillation_alpha | sdft.yaml | --objective.distillation_alpha=0
objective.sdft.num_loss_tokens_to_skip | sdft.yaml | --objective.num_loss_tokens_to_skip=2
objective.sdft.teacher_model_kind | sdft.yaml --optimizer.learning_rate=0.1 | --objective.teacher_model_kind=live
objective.sdft.teacher_update_rate | sdft.yaml --optimizer.learning_rate=0.1 --objective.teacher_model_kind=ema | --objective.teacher_update_rate=1
objective.sdft.teacher_sync_steps | sdft.yaml --optimizer.learning_rate=0.1 --objective.teacher_model_kind=ema | --objective.teacher_sync_steps=2
objective.sdft.generate_from_teacher | sdft.yaml | --objective.generate_from_teacher=true
objective.masked_lm.mlm_probability | masked.yaml | --objective.mlm_probability=0.5
objective.masked_lm.mask_replace_prob | masked.yaml | --objective.mask_replace_prob=0.2
objective.masked_lm.random_replace_prob | masked.yaml | --objective.random_replace_prob=0
objective.classification.labels | b.yaml | '--objective.labels=["1", "0"]'
objective.classification.problem_type | b.yaml | --objective.problem_type=regression
objective.classification.label_smoothing | b.yaml | --objective.label_smoothing=0.1
objective.classification.regression_loss | b.yaml --objective.problem_type=regression | --objective.regression_loss=binary_cross_entropy
objective.ranking.loss_type | ranking.yaml | --objective.loss_type=list_net
objective.ranking.weighting_scheme | ranking.yaml | --objective.weighting_scheme=ndcg_loss1
objective.ranking.mu | ranking.yaml | --objective.mu=1
objective.ranking.sigma | ranking.yaml | --objective.sigma=2
objective.ranking.alpha | ranking.yaml --objective.loss_type=adr_mse | --objective.alpha=3
objective.ranking.num_negatives | drawn.yaml | --objective.num_negatives=1
objective.ranking.scale | drawn.yaml | --objective.scale=2
objective.ranking.activation_fn | drawn.yaml | --objective.activation_fn=identity
objective.ranking.max_pair_length | drawn.yaml | --objective.max_pair_length=8
objective.token_classification.labels | tagged.yaml | '--objective.labels=[O, B-1, B-0]'
objective.token_classification.label_all_tokens | tagged.yaml | --objective.label_all_tokens=true
objective.token_classification.label_smoothing | tagged.yaml | --objective.label_smoothing=0.1
objective.question_answering.doc_stride | squad.yaml | --objective.doc_stride=2
objective.question_answering.n_best | answered.yaml | --objective.n_best=1
objective.question_answering.max_answer_length | answered.yaml --trainer.batch_size=8 --trainer.steps=30 --optimizer.learning_rate=3e-2 | --objective.max_answer_length=1
objective.question_answering.null_threshold | squad.yaml | --objective.null_threshold=1000
objective.process_reward.labels | steps.yaml | '--objective.labels=[good, bad]'
objective.process_reward.step_separator | steps.yaml | --objective.step_separator=::
objective.process_reward.max_completion_length | steps.yaml | --objective.max_completion_length=3
objective.process_reward.train_on_last_step_only | steps.yaml | --objective.train_on_last_step_only=true
objective.process_reward.label_smoothing | steps.yaml | --objective.label_smoothing=0.1
optimizer | r.yaml | --optimizer.type=sgd
optimizer.adamw.betas | r.yaml | '--optimizer.betas=[0.5, 0.9]'
optimizer.adamw.eps | r.yaml | --optimizer.eps=0.01
optimizer.sgd.momentum | r.yaml --optimizer={type:\ sgd} | --optimizer.momentum=0.9
optimizer.sgd.dampening | r.yaml '--optimizer={type: sgd, momentum: 0.9}' | --optimizer.dampening=0.5
optimizer.sgd.nesterov | r.yaml '--optimizer={type: sgd, momentum: 0.9}' | --optimizer.nesterov=true
optimizer.adam.betas | r.yaml --optimizer={type:\ adam} | '--optimizer.betas=[0.5, 0.9]'
optimizer.adam.eps | r.yaml --optimizer={type:\ adam} | --optimizer.eps=0.01
optimizer.adamax.betas | r.yaml --optimizer={type:\ adamax} | '--optimizer.betas=[0.5, 0.9]'
optimizer.adamax.eps | r.yaml --optimizer={type:\ adamax} | --optimizer.eps=0.01
optimizer.adamax.decoupled_weight_decay | r.yaml '--optimizer={type: adamax, weight_decay: 0.5}' | --optimizer.decoupled_weight_decay=true
optimizer.ademamix.betas | r.yaml --optimizer={type:\ ademamix} | '--optimizer.betas=[0.5, 0.9, 0.99]'
optimizer.ademamix.eps | r.yaml --optimizer={type:\ ademamix} | --optimizer.eps=0.01
optimizer.ademamix.alpha | r.yaml --optimizer={type:\ ademamix} | --optimizer.alpha=1
optimizer.ademamix.slow_warmup_steps | r.yaml --optimizer={type:\ ademamix} | --optimizer.slow_warmup_steps=3
optimizer.lion.betas | r.yaml --optimizer={type:\ lion} | '--optimizer.betas=[0.5, 0.9]'
optimizer.nadam.betas | r.yaml --optimizer={type:\ nadam} | '--optimizer.betas=[0.5, 0.9]'
optimizer.nadam.eps | r.yaml --optimizer={type:\ nadam} | --optimizer.eps=0.01
optimizer.nadam.momentum_decay | r.yaml --optimizer={type:\ nadam} | --optimizer.momentum_decay=0.5
optimizer.nadam.decoupled_weight_decay | r.yaml '--optimizer={type: nadam, weight_decay: 0.5}' | --optimizer.decoupled_weight_decay=true
optimizer.radam.betas | r.yaml --optimizer={type:\ radam} | '--optimizer.betas=[0.5, 0.6]'
optimizer.radam.eps | r.yaml '--optimizer={type: radam, betas: [0.5, 0.9]}' --trainer.steps=10 | --optimizer.eps=0.01
optimizer.radam.decoupled_weight_decay | r.yaml '--optimizer={type: radam, weight_decay: 0.5}' | --optimizer.decoupled_weight_decay=true
optimizer.rmsprop.alpha | r.yaml --optimizer={type:\ rmsprop} | --optimizer.alpha=0.5
optimizer.rmsprop.eps | r.yaml --optimizer={type:\ rmsprop} | --optimizer.eps=0.01
optimizer.rmsprop.momentum | r.yaml --optimizer={type:\ rmsprop} | --optimizer.momentum=0.9
optimizer.rmsprop.centered | r.yaml --optimizer={type:\ rmsprop} | --optimizer.centered=true
optimizer.adafactor.beta1 | r.yaml --optimizer={type:\ adafactor} | --optimizer.beta1=0.9
optimizer.adafactor.decay_rate | r.yaml --optimizer={type:\ adafactor} | --optimizer.decay_rate=-0.1
optimizer.adafactor.clip_threshold | r.yaml --optimizer={type:\ adafactor} | --optimizer.clip_threshold=0.1
optimizer.adafactor.eps | r.yaml --optimizer={type:\ adafactor} | '--optimizer.eps=[0.1, 0.1]'
optimizer.adafactor.scale_parameter | r.yaml --optimizer={type:\ adafactor} | --optimizer.scale_parameter=true
optimizer.adamw_8bit.betas | r.yaml --optimizer={type:\ adamw_8bit} | '--optimizer.betas=[0.5, 0.9]'
optimizer.adamw_8bit.eps | r.yaml --optimizer={type:\ adamw_8bit} | --optimizer.eps=0.01
optimizer.adamw_schedule_free.betas | r.yaml --optimizer={type:\ adamw_schedule_free} | '--optimizer.betas=[0.5, 0.9]'
optimizer.adamw_schedule_free.eps | r.yaml --optimizer={type:\ adamw_schedule_free} | --optimizer.eps=0.01
optimizer.adamw_schedule_free.r | r.yaml --optimizer={type:\ adamw_schedule_free} | --optimizer.r=2
optimizer.adamw_schedule_free.weight_lr_power | r.yaml '--optimizer={type: adamw_schedule_free, schedule: {type: constant, warmup_steps: 3}}' | --optimizer.weight_lr_power=1
optimizer.groups.groups | r.yaml | '--optimizer={type: groups, groups: [{name: all, optimizer: sgd}]}'
optimizer.groups.groups[].name | r.yaml '--optimizer={type: groups, groups: [{name: a}]}' | --optimizer.groups.0.name=b
optimizer.groups.groups[].match | r.yaml '--optimizer={type: groups, groups: [{name: a, match: embed, optimizer: sgd}, {name: b}]}' | --optimizer.groups.0.match=norm
optimizer.groups.groups[].optimizer | r.yaml '--optimizer={type: groups, groups: [{name: a}]}' | --optimizer.groups.0.optimizer=sgd
optimizer.galore_adamw.rank | r.yaml '--optimizer={type: galore_adamw, rank: 2}' | --optimizer.rank=3
optimizer.galore_adamw.update_proj_gap | r.yaml '--optimizer={type: galore_adamw, rank: 2}' | --optimizer.update_proj_gap=2
optimizer.galore_adamw.scale | r.yaml '--optimizer={type: galore_adamw, rank: 2}' | --optimizer.scale=2
optimizer.galore_adamw.betas | r.yaml '--optimizer={type: galore_adamw, rank: 2}' | '--optimizer.betas=[0.5, 0.9]'
optimizer.galore_adamw.eps | r.yaml '--optimizer={type: galore_adamw, rank: 2}' | --optimizer.eps=0.01
optimizer.galore_adamw.adamw_for | r.yaml '--optimizer={type: galore_adamw, rank: 2}' | --optimizer.adamw_for=mlp
optimizer.apollo.rank | r.yaml '--optimizer={type: apollo, rank: 2}' | --optimizer.rank=3
optimizer.apollo.update_proj_gap | r.yaml '--optimizer={type: apollo, rank: 2}' | --optimizer.update_proj_gap=2
optimizer.apollo.scale | r.yaml '--optimizer={type: apollo, rank: 2}' | --optimizer.scale=2
optimizer.apollo.betas | r.yaml '--optimizer={type: apollo, rank: 2}' | '--optimizer.betas=[0.5, 0.9]'
optimizer.apollo.eps | r.yaml '--optimizer={type: apollo, rank: 2}' | --optimizer.eps=0.01
optimizer.apollo.adamw_for | r.yaml '--optimizer={type: apollo, rank: 2}' | --optimizer.adamw_for=mlp
optimizer.apollo.scale_type | r.yaml '--optimizer={type: apollo, rank: 2}' | --optimizer.scale_type=tensor
optimizer.lamb.betas | r.yaml --optimizer={type:\ lamb} | '--optimizer.betas=[0.5, 0.9]'
optimizer.lamb.eps | r.yaml --optimizer={type:\ lamb} | --optimizer.eps=0.01
optimizer.mars.betas | r.yaml --optimizer={type:\ mars} | '--optimizer.betas=[0.5, 0.9]'
optimizer.mars.eps | r.yaml --optimizer={type:\ mars} | --optimizer.eps=0.01
optimizer.mars.gamma | r.yaml --optimizer={type:\ mars} | --optimizer.gamma=0.5
optimizer.muon.momentum | r.yaml --optimizer={type:\ muon} | --optimizer.momentum=0.5
optimizer.muon.nesterov | r.yaml --optimizer={type:\ muon} | --optimizer.nesterov=false
optimizer.muon.ns_steps | r.yaml --optimizer={type:\ muon} | --optimizer.ns_steps=2
optimizer.muon.ns_coefficients | r.yaml --optimizer={type:\ muon} | '--optimizer.ns_coefficients=[2, -1.5, 0.5]'
optimizer.muon.eps | r.yaml --optimizer={type:\ muon} | --optimizer.eps=100
optimizer.muon.adjust_lr | r.yaml --optimizer={type:\ muon} | --optimizer.adjust_lr=match_rms_adamw
optimizer.muon.adamw_for | r.yaml --optimizer={type:\ muon} | --optimizer.adamw_for=mlp
optimizer.prodigy.betas | r.yaml --optimizer={type:\ prodigy} | '--optimizer.betas=[0.5, 0.9]'
optimizer.prodigy.beta3 | r.yaml --optimizer={type:\ prodigy} | --optimizer.beta3=0.5
optimizer.prodigy.eps | r.yaml --optimizer={type:\ prodigy} | --optimizer.eps=1
optimizer.prodigy.d0 | r.yaml --optimizer={type:\ prodigy} | --optimizer.d0=1e-4
optimizer.prodigy.d_coef | r.yaml --optimizer={type:\ prodigy} | --optimizer.d_coef=2
optimizer.prodigy.growth_rate | r.yaml --optimizer={type:\ prodigy} | --optimizer.growth_rate=1.01
optimizer.prodigy.use_bias_correction | r.yaml --optimizer={type:\ prodigy} | --optimizer.use_bias_correction=true
optimizer.prodigy.safeguard_warmup | r.yaml --optimizer={type:\ prodigy} | --optimizer.safeguard_warmup=true
optimizer.sophia.betas | r.yaml --optimizer={type:\ sophia} | '--optimizer.betas=[0.5, 0.9]'
optimizer.sophia.rho | r.yaml '--optimizer={type: sophia, update_period: 1}' | --optimizer.rho=10
optimizer.sophia.update_period | r.yaml '--optimizer={type: sophia}' | --optimizer.update_period=2
optimizer.schedule.cosine_with_restarts.cycles | r.yaml '--optimizer.schedule={type: cosine_with_restarts}' | --optimizer.schedule.cycles=2
optimizer.schedule.polynomial.power | r.yaml '--optimizer.schedule={type: polynomial}' | --optimizer.schedule.power=2
optimizer.schedule.inverse_sqrt.timescale | r.yaml '--optimizer.schedule={type: inverse_sqrt}' | --optimizer.schedule.timescale=2
optimizer.schedule.wsd.final_ratio | r.yaml '--optimizer.schedule={type: wsd, decay_steps: 3}' | --optimizer.schedule.final_ratio=0.5
optimizer.schedule.wsd.decay_steps | r.yaml '--optimizer.schedule={type: wsd}' | --optimizer.schedule.decay_steps=3
optimizer.schedule.wsd.decay_type | r.yaml '--optimizer.schedule={type: wsd, decay_steps: 3}' | --optimizer.schedule.decay_type=linear
optimizer.schedule.one_cycle.warmup_ratio | r.yaml '--optimizer.schedule={type: one_cycle, warmup_ratio: 0.5}' | --optimizer.schedule.warmup_ratio=0.9
optimizer.schedule.one_cycle.start_ratio | r.yaml '--optimizer.schedule={type: one_cycle, warmup_ratio: 0.9}' | --optimizer.schedule.start_ratio=0.5
optimizer.schedule.one_cycle.final_ratio | r.yaml '--optimizer.schedule={type: one_cycle, warmup_ratio: 0.5}' | --optimizer.schedule.final_ratio=0.5
optimizer.schedule.jagged.restart_steps | r.yaml '--optimizer.schedule={type: jagged, restart_steps: 2, restart_warmup_steps: 1}' | --optimizer.schedule.restart_steps=3
optimizer.schedule.jagged.restart_warmup_steps | r.yaml '--optimizer.schedule={type: jagged, restart_steps: 2, restart_warmup_steps: 1}' | --optimizer.schedule.restart_warmup_steps=0
optimizer.schedule.jagged.restart_anneal_steps | r.yaml '--optimizer.schedule={type: jagged, restart_steps: 3, restart_warmup_steps: 1}' | --optimizer.schedule.restart_anneal_steps=2
optimizer.schedule.jagged.restart_ratio | r.yaml '--optimizer.schedule={type: jagged, restart_steps: 2, restart_warmup_steps: 1}' | --optimizer.schedule.restart_ratio=0.5
optimizer.schedule.jagged.schedule | r.yaml '--optimizer.schedule={type: jagged, restart_steps: 2, restart_warmup_steps: 1}' | --optimizer.schedule.schedule=linear
trainer.batch_size | r.yaml | --trainer.batch_size=1
trainer.step_rows | r.yaml | --trainer.step_rows=4
trainer.memory_limit | r.yaml --trainer.batch_size=auto --trainer.step_rows=4 | --trainer.memory_limit=1MB
trainer.accumulate | r.yaml | --trainer.accumulate=2
trainer.batch_warmup | r.yaml --trainer.accumulate=3 | '--trainer.batch_warmup=[{steps: 2, accumulate: 1}]'
trainer.batch_warmup[].steps | r.yaml --trainer.accumulate=3 '--trainer.batch_warmup=[{steps: 2, accumulate: 1}]' | --trainer.batch_warmup.0.steps=3
trainer.batch_warmup[].accumulate | r.yaml --trainer.accumulate=3 '--trainer.batch_warmup=[{steps: 2, accumulate: 1}]' | --trainer.batch_warmup.0.accumulate=2
trainer.batch_warmup[].batch_size | r.yaml --trainer.accumulate=3 '--trainer.batch_warmup=[{steps: 2, accumulate: 1}]' | --trainer.batch_warmup.0.batch_size=1
trainer.batch_warmup[].increment | r.yaml --trainer.accumulate=3 '--trainer.batch_warmup=[{steps: 2, accumulate: 1}]' | --trainer.batch_warmup.0.increment=1
trainer.steps | r.yaml | --trainer.steps=3
trainer.epochs | r.yaml --trainer.steps=null --trainer.epochs=1 | --trainer.epochs=2
trainer.tokens | r.yaml --trainer.tokens=100 | --trainer.tokens=200
trainer.time_limit | r.yaml | --trainer.time_limit=0.0001s
trainer.neftune_noise_alpha | r.yaml | --trainer.neftune_noise_alpha=5
trainer.max_grad_value | r.yaml | --trainer.max_grad_value=1e-4
trainer.skip_spikes.sigma | r.yaml --trainer.skip_spikes.window=2 | --trainer.skip_spikes.sigma=0.01
trainer.skip_spikes.window | r.yaml --trainer.skip_spikes.sigma=0.01 | --trainer.skip_spikes.window=2
trainer.skip_not_finite | r.yaml --optimizer.learning_rate=1e30 | --trainer.skip_not_finite=1
trainer.ema.decay | r.yaml | --trainer.ema.decay=0.9
trainer.ema.warmup | r.yaml --trainer.ema.decay=0.9 | --trainer.ema.warmup=false
trainer.eval_every_epochs | r.yaml --trainer.epochs=3 --trainer.eval_every=0 | --trainer.eval_every_epochs=1
trainer.eval_delay | r.yaml | --trainer.eval_delay=3
trainer.eval_at_start | r.yaml | --trainer.eval_at_start=true
trainer.max_grad_norm | r.yaml | --trainer.max_grad_norm=0.001
trainer.device | what computes: tests/device/train_test.cc |
trainer.loss_scale.start | r.yaml --trainer.precision=fp16 | --trainer.loss_scale.start=1099511627776
trainer.loss_scale.grow_every | r.yaml --trainer.precision=fp16 | --trainer.loss_scale.grow_every=1
trainer.deterministic | r.yaml | --trainer.deterministic=fast
trainer.cuda_graphs | r.yaml | --trainer.cuda_graphs=always
trainer.matmul_precision | r.yaml | --trainer.matmul_precision=high
trainer.precision | r.yaml | --trainer.precision=fp64
trainer.fp8 | r.yaml --trainer.precision=bf16 | --trainer.fp8=rowwise
trainer.qat | r.yaml | '--trainer.qat={weight_dtype: int8, group_size: 0}'
trainer.qat.weight_dtype | r.yaml '--trainer.qat={weight_dtype: int8, group_size: 0}' | --trainer.qat.weight_dtype=int4
trainer.qat.activation_dtype | r.yaml '--trainer.qat={weight_dtype: int8, group_size: 0}' | --trainer.qat.activation_dtype=int8
trainer.qat.group_size | r.yaml '--trainer.qat={weight_dtype: int4, group_size: 0}' | --trainer.qat.group_size=2
trainer.qat.fake_quant_after_n_steps | r.yaml '--trainer.qat={weight_dtype: int4, group_size: 0}' | --trainer.qat.fake_quant_after_n_steps=2
trainer.eval_every | r.yaml | --trainer.eval_every=1
trainer.eval_batch_size | memory: rows of an evaluation are independent of each other, tests/evals |
trainer.max_eval_batches | r.yaml | --trainer.max_eval_batches=1
trainer.eval_sets | r.yaml | '--trainer.eval_sets={held_out: 1}'
trainer.eval_sets.<name>.every | r.yaml | '--trainer.eval_sets={held_out: {every: 1}}'
trainer.eval_sets.<name>.max_batches | r.yaml | '--trainer.eval_sets={held_out: {max_batches: 1}}'
trainer.eval_seed | what a plug-in's collator draws: tests/cli/plugins.test |
trainer.report_every | lines of trackers: tests/train/eval_sets_test.cc |
trainer.log_every | r.yaml | --trainer.log_every=2
trainer.log_modes | r.yaml --trainer.log_every=2 | '--trainer.log_modes=[max, std]'
trainer.save.every | r.yaml | --trainer.save.every=1
trainer.save.every_minutes | r.yaml --trainer.save.every=0 | --trainer.save.every_minutes=0.000001
trainer.save.keep | r.yaml --trainer.save.every=1 | --trainer.save.keep=1
trainer.save.keep_best | r.yaml --trainer.eval_every=1 --trainer.save.every=1 --trainer.save.keep=1 --optimizer.learning_rate=1 | --trainer.save.keep_best=3
trainer.save.best_by | r.yaml --trainer.eval_every=1 --trainer.save.every=1 | --trainer.save.best_by=eval_los
trainer.save.after_evaluation | r.yaml --trainer.eval_every=1 --trainer.save.every=0 | --trainer.save.after_evaluation=true
trainer.save.dtype | r.yaml | --trainer.save.dtype=bf16
trainer.save.optimizer | r.yaml | --trainer.save.optimizer=false
trainer.save.asynchronous | the same checkpoints: tests/train/saves_test.cc |
trainer.save.grace_seconds | r.yaml | --trainer.save.grace_seconds=0.000001
trainer.checkpoint_blocks | memory: the same numbers, tests/ops/checkpoint_test.cc |
metrics | seq2seq.yaml | '--metrics=[rouge]'
metrics.bleu.tokenize | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.bleu.lowercase | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.bleu.smooth_method | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.bleu.smooth_value | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.bleu.effective_order | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.bleu.max_new_tokens | seq2seq.yaml '--metrics=[{type: bleu, max_new_tokens: 6}]' | --metrics.0.max_new_tokens=3
metrics.bleu.num_beams | which answers are written: tests/evals/written_test.cc |
metrics.bleu.length_penalty | which answers are written: tests/evals/written_test.cc |
metrics.bleu.min_new_tokens | which answers are written: tests/evals/written_test.cc |
metrics.bleu.no_repeat_ngram_size | which answers are written: tests/evals/written_test.cc |
metrics.bleu.repetition_penalty | which answers are written: tests/evals/written_test.cc |
metrics.bleu.forced_bos_token_id | which answers are written: tests/evals/written_test.cc |
metrics.bleu.temperature | which answers are written: tests/evals/written_test.cc |
metrics.bleu.top_k | which answers are written: tests/evals/written_test.cc |
metrics.bleu.top_p | which answers are written: tests/evals/written_test.cc |
metrics.bleu.seed | which answers are written: tests/evals/written_test.cc |
metrics.bleu.stop | which answers are written: tests/evals/written_test.cc |
metrics.bleu.regex | which answers are written: tests/evals/written_test.cc |
metrics.bleu.json_schema | which answers are written: tests/evals/written_test.cc |
metrics.chrf.char_order | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.chrf.word_order | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.chrf.beta | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.chrf.lowercase | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.chrf.whitespace | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.chrf.max_new_tokens | seq2seq.yaml '--metrics=[{type: chrf, max_new_tokens: 6}]' | --metrics.0.max_new_tokens=3
metrics.chrf.num_beams | which answers are written: tests/evals/written_test.cc |
metrics.chrf.length_penalty | which answers are written: tests/evals/written_test.cc |
metrics.chrf.min_new_tokens | which answers are written: tests/evals/written_test.cc |
metrics.chrf.no_repeat_ngram_size | which answers are written: tests/evals/written_test.cc |
metrics.chrf.repetition_penalty | which answers are written: tests/evals/written_test.cc |
metrics.chrf.forced_bos_token_id | which answers are written: tests/evals/written_test.cc |
metrics.chrf.temperature | which answers are written: tests/evals/written_test.cc |
metrics.chrf.top_k | which answers are written: tests/evals/written_test.cc |
metrics.chrf.top_p | which answers are written: tests/evals/written_test.cc |
metrics.chrf.seed | which answers are written: tests/evals/written_test.cc |
metrics.chrf.stop | which answers are written: tests/evals/written_test.cc |
metrics.chrf.regex | which answers are written: tests/evals/written_test.cc |
metrics.chrf.json_schema | which answers are written: tests/evals/written_test.cc |
metrics.rouge.use_stemmer | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.rouge.max_new_tokens | seq2seq.yaml '--metrics=[{type: rouge, max_new_tokens: 6}]' | --metrics.0.max_new_tokens=3
metrics.rouge.num_beams | which answers are written: tests/evals/written_test.cc |
metrics.rouge.length_penalty | which answers are written: tests/evals/written_test.cc |
metrics.rouge.min_new_tokens | which answers are written: tests/evals/written_test.cc |
metrics.rouge.no_repeat_ngram_size | which answers are written: tests/evals/written_test.cc |
metrics.rouge.repetition_penalty | which answers are written: tests/evals/written_test.cc |
metrics.rouge.forced_bos_token_id | which answers are written: tests/evals/written_test.cc |
metrics.rouge.temperature | which answers are written: tests/evals/written_test.cc |
metrics.rouge.top_k | which answers are written: tests/evals/written_test.cc |
metrics.rouge.top_p | which answers are written: tests/evals/written_test.cc |
metrics.rouge.seed | which answers are written: tests/evals/written_test.cc |
metrics.rouge.stop | which answers are written: tests/evals/written_test.cc |
metrics.rouge.regex | which answers are written: tests/evals/written_test.cc |
metrics.rouge.json_schema | which answers are written: tests/evals/written_test.cc |
metrics.regression.regression_loss | is measured by the objective, and refused twice: tests/train/cross_encoder_test.cc |
metrics.question_answering.n_best | is measured by the objective, and refused twice: tests/train/written_answers_test.cc |
metrics.question_answering.max_answer_length | is measured by the objective, and refused twice: tests/train/written_answers_test.cc |
metrics.question_answering.null_threshold | is measured by the objective, and refused twice: tests/train/written_answers_test.cc |
metrics.ter.normalized | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.ter.no_punct | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.ter.case_sensitive | needs answers like the data's: tests/evals/written_golden_test.cc |
metrics.ter.max_new_tokens | seq2seq.yaml '--metrics=[{type: ter, max_new_tokens: 6}]' | --metrics.0.max_new_tokens=3
metrics.ter.num_beams | which answers are written: tests/evals/written_test.cc |
metrics.ter.length_penalty | which answers are written: tests/evals/written_test.cc |
metrics.ter.min_new_tokens | which answers are written: tests/evals/written_test.cc |
metrics.ter.no_repeat_ngram_size | which answers are written: tests/evals/written_test.cc |
metrics.ter.repetition_penalty | which answers are written: tests/evals/written_test.cc |
metrics.ter.forced_bos_token_id | which answers are written: tests/evals/written_test.cc |
metrics.ter.temperature | which answers are written: tests/evals/written_test.cc |
metrics.ter.top_k | which answers are written: tests/evals/written_test.cc |
metrics.ter.top_p | which answers are written: tests/evals/written_test.cc |
metrics.ter.seed | which answers are written: tests/evals/written_test.cc |
metrics.ter.stop | which answers are written: tests/evals/written_test.cc |
metrics.ter.regex | which answers are written: tests/evals/written_test.cc |
metrics.ter.json_schema | which answers are written: tests/evals/written_test.cc |
callbacks | r.yaml | '--callbacks=[{type: early_stopping, patience: 1, min_drop: 100}]'
callbacks.early_stopping.metric | r.yaml '--callbacks=[early_stopping]' | --callbacks.0.metric=eval_los
callbacks.early_stopping.patience | r.yaml --trainer.eval_every=1 '--callbacks=[{type: early_stopping, min_drop: 100}]' | --callbacks.0.patience=1
callbacks.early_stopping.min_drop | r.yaml --trainer.eval_every=1 '--callbacks=[{type: early_stopping, patience: 1}]' | --callbacks.0.min_drop=100
callbacks.early_stopping.greater_is_better | r.yaml --trainer.eval_every=1 '--callbacks=[{type: early_stopping, patience: 1}]' | --callbacks.0.greater_is_better=true
callbacks.histograms.every | r.yaml '--callbacks=[{type: histograms, every: 2}]' | --callbacks.0.every=1
callbacks.histograms.bins | r.yaml '--callbacks=[{type: histograms, every: 2}]' | --callbacks.0.bins=3
callbacks.histograms.match | r.yaml '--callbacks=[{type: histograms, every: 2}]' | --callbacks.0.match=norm
callbacks.histograms.weights | r.yaml '--callbacks=[{type: histograms, every: 2, gradients: true}]' | --callbacks.0.weights=false
callbacks.histograms.gradients | r.yaml '--callbacks=[{type: histograms, every: 2}]' | --callbacks.0.gradients=true
callbacks.intermediates.match | r.yaml --callbacks=[intermediates] | --callbacks.0.match=output
callbacks.learning_rate.every | r.yaml '--callbacks=[{type: learning_rate, every: 2}]' | --callbacks.0.every=1
callbacks.learning_rate.momentum | r.yaml '--callbacks=[learning_rate]' | --callbacks.0.momentum=false
callbacks.learning_rate.weight_decay | r.yaml '--callbacks=[learning_rate]' | --callbacks.0.weight_decay=false
callbacks.memory.every | r.yaml --callbacks=[memory] | --callbacks.0.every=0
callbacks.memory.seconds | how often it looks: tests/callbacks/measures_test.cc |
callbacks.memory.warn_at | r.yaml --callbacks=[memory] | --callbacks.0.warn_at=0
callbacks.loss_spike.multiplier | r.yaml '--callbacks=[{type: loss_spike, window: 2, patience: 0, multiplier: 5, cap: 0}]' --optimizer.learning_rate=1 | --callbacks.0.multiplier=1
callbacks.loss_spike.window | r.yaml '--callbacks=[{type: loss_spike, cap: 0.1}]' | --callbacks.0.window=2
callbacks.loss_spike.patience | r.yaml '--callbacks=[{type: loss_spike, window: 2, multiplier: 1}]' --optimizer.learning_rate=1 | --callbacks.0.patience=0
callbacks.loss_spike.cap | r.yaml '--callbacks=[{type: loss_spike, window: 2, cap: 100}]' | --callbacks.0.cap=0.1
callbacks.pruning.match | r.yaml '--callbacks=[{type: pruning, every: 1}]' | --callbacks.0.match=lm_head
callbacks.pruning.exclude | r.yaml '--callbacks=[{type: pruning, every: 1}]' | --callbacks.0.exclude=mlp
callbacks.pruning.by | r.yaml '--callbacks=[{type: pruning, every: 1}]' | --callbacks.0.by=row
callbacks.pruning.scope | r.yaml '--callbacks=[{type: pruning, every: 1}]' | --callbacks.0.scope=global
callbacks.pruning.sparsity | r.yaml '--callbacks=[{type: pruning, every: 1}]' | --callbacks.0.sparsity=0.7
callbacks.pruning.initial | r.yaml '--callbacks=[{type: pruning, every: 1, begin: 1, end: 3}]' | --callbacks.0.initial=0.2
callbacks.pruning.power | r.yaml '--callbacks=[{type: pruning, every: 1, end: 3}]' | --callbacks.0.power=1
callbacks.pruning.begin | r.yaml '--callbacks=[{type: pruning, every: 1, end: 3}]' | --callbacks.0.begin=1
callbacks.pruning.end | r.yaml '--callbacks=[{type: pruning, every: 1}]' | --callbacks.0.end=4
callbacks.pruning.every | r.yaml '--callbacks=[{type: pruning, every: 1, end: 3}]' | --callbacks.0.every=2
callbacks.pruning.block | r.yaml '--callbacks=[{type: pruning, every: 1, by: row}]' | --callbacks.0.block=4
callbacks.pruning.pattern | r.yaml '--callbacks=[{type: pruning, every: 1, by: pattern, pattern: "2:4"}]' | --callbacks.0.pattern=1:4
callbacks.pruning.each | r.yaml '--callbacks=[{type: pruning, every: 1}]' | --callbacks.0.each=true
callbacks.norms.every | r.yaml '--callbacks=[{type: norms, every: 2}]' | --callbacks.0.every=1
callbacks.norms.match | r.yaml '--callbacks=[{type: norms, every: 2}]' | --callbacks.0.match=norm
callbacks.norms.weights | r.yaml '--callbacks=[{type: norms, every: 2}]' | --callbacks.0.weights=false
callbacks.norms.gradients | r.yaml '--callbacks=[{type: norms, every: 2}]' | --callbacks.0.gradients=false
callbacks.norms.updates | r.yaml '--callbacks=[{type: norms, every: 2}]' | --callbacks.0.updates=true
callbacks.norms.each | r.yaml '--callbacks=[{type: norms, every: 2}]' | --callbacks.0.each=false
callbacks.profiler.start | r.yaml '--callbacks=[{type: profiler, start: 2}]' | --callbacks.0.start=3
callbacks.profiler.count | r.yaml '--callbacks=[{type: profiler, start: 2, count: 1}]' | --callbacks.0.count=2
callbacks.profiler.ops | what is in the trace: tests/callbacks/profiler_test.cc |
callbacks.profiler.every_rank | needs ranks: tests/callbacks/profiler_test.cc |
callbacks.samples.every | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te], max_new_tokens: 3}]' | --callbacks.0.every=1
callbacks.samples.after_evaluation | r.yaml '--callbacks=[{type: samples, every: 3, prompts: [te]}]' | --callbacks.0.after_evaluation=true
callbacks.samples.prompts | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te]}]' | '--callbacks.0.prompts=[xx]'
callbacks.samples.chat | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te]}]' | --callbacks.0.chat=true
callbacks.samples.system | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te]}]' | --callbacks.0.system=brief
callbacks.samples.from | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te]}]' | --callbacks.0.from=train
callbacks.samples.count | r.yaml '--callbacks=[{type: samples, every: 2, from: train}]' | --callbacks.0.count=2
callbacks.samples.prompt_share | r.yaml '--callbacks=[{type: samples, every: 2, from: train}]' | --callbacks.0.prompt_share=0.1
callbacks.samples.max_new_tokens | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te], max_new_tokens: 3}]' | --callbacks.0.max_new_tokens=1
callbacks.samples.do_sample | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te]}]' | --callbacks.0.do_sample=true
callbacks.samples.temperature | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te], do_sample: true}]' | --callbacks.0.temperature=0.01
callbacks.samples.top_p | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te], do_sample: true}]' | --callbacks.0.top_p=0.1
callbacks.samples.top_k | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te], do_sample: true}]' | --callbacks.0.top_k=1
callbacks.samples.num_return_sequences | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te], do_sample: true}]' | --callbacks.0.num_return_sequences=2
callbacks.samples.seed | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te], do_sample: true}]' | --callbacks.0.seed=7
callbacks.samples.print | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te]}]' | --callbacks.0.print=true
callbacks.samples.file | r.yaml '--callbacks=[{type: samples, every: 2, prompts: [te]}]' | --callbacks.0.file=texts.jsonl
callbacks.shell.command | r.yaml '--callbacks=[{type: shell, command: echo one}]' | '--callbacks.0.command=echo other'
callbacks.shell.on | r.yaml '--callbacks=[{type: shell, command: echo one}]' | '--callbacks.0.on=[save]'
callbacks.shell.time_limit | r.yaml '--callbacks=[{type: shell, command: sleep 1}]' | --callbacks.0.time_limit=0.05
callbacks.throughput.window | r.yaml --callbacks=[throughput] | --callbacks.0.window=1
callbacks.throughput.peak_tflops | r.yaml --callbacks=[throughput] | --callbacks.0.peak_tflops=1
callbacks.timers.parts | r.yaml --callbacks=[timers] | --callbacks.0.parts=false
callbacks.timers.epochs | r.yaml '--data.train=[{path: d.jsonl, max_samples: 6}]' --callbacks=[timers] | --callbacks.0.epochs=false
callbacks.timers.elapsed | r.yaml --callbacks=[timers] | --callbacks.0.elapsed=false
callbacks.trigger_file.file | r.yaml --callbacks=[trigger_file] | --callbacks.0.file=run.json
callbacks.trigger_file.action | what a file asks for: tests/callbacks/observers_test.cc |
callbacks.trigger_file.every | likewise |
trackers | r.yaml | --trackers=[csv]
trackers.csv.file | r.yaml --trackers=[csv] | --trackers.0.file=x.csv
trackers.tensorboard.folder | r.yaml --trackers=[tensorboard] | --trackers.0.folder=tb
trackers.mlflow.tracking_uri | r.yaml --trackers=[mlflow] | --trackers.0.tracking_uri=elsewhere
trackers.mlflow.experiment_name | what MLflow is told of the run: tests/trackers/mlflow_test.cc |
trackers.mlflow.run_name | likewise |
trackers.mlflow.description | likewise |
trackers.mlflow.parent_run_id | likewise |
trackers.mlflow.tags | likewise |
trackers.terminal.plain_every_s | r.yaml --trackers=[terminal] | --trackers.0.plain_every_s=0
trackers.wandb.project | what W&B is told of the run: tests/trackers/wandb_test.cc |
trackers.wandb.entity | likewise |
trackers.wandb.name | likewise |
trackers.wandb.group | likewise |
trackers.wandb.notes | likewise |
trackers.wandb.id | likewise |
trackers.wandb.tags | likewise |
run.folder | r.yaml | --run.folder=elsewhere
run.name | r.yaml | --run.name=n
run.seed | r.yaml | --run.seed=2
R

# What all optimizers have, and what all schedules have.
for type in $(hone docs recipe | sed -nE 's/^## `optimizer: \{type: ([a-z0-9_]+)\}`.*/\1/p' | grep -vx groups); do
  cat <<R
optimizer.$type.learning_rate | r.yaml --optimizer={type:\ $type} | --optimizer.learning_rate=0.5
optimizer.$type.weight_decay | r.yaml --optimizer={type:\ $type} | --optimizer.weight_decay=0.5
optimizer.$type.decay_all | r.yaml '--optimizer={type: $type, weight_decay: 0.5}' | --optimizer.decay_all=true
optimizer.$type.schedule | r.yaml --optimizer={type:\ $type} | --optimizer.schedule=linear
R
done >>options
for type in apollo galore_adamw mars muon; do
  cat <<R
optimizer.$type.adamw.learning_rate | r.yaml --optimizer={type:\ $type} | --optimizer.adamw.learning_rate=0.5
optimizer.$type.adamw.weight_decay | r.yaml '--optimizer={type: $type, decay_all: true}' | --optimizer.adamw.weight_decay=0.9
optimizer.$type.adamw.betas | r.yaml --optimizer={type:\ $type} | '--optimizer.adamw.betas=[0.5, 0.9]'
optimizer.$type.adamw.eps | r.yaml --optimizer={type:\ $type} | --optimizer.adamw.eps=0.01
R
done >>options
for type in constant cosine cosine_with_restarts exponential inverse_sqrt linear polynomial rex wsd; do
  cat <<R
optimizer.schedule.$type.warmup_steps | r.yaml '--optimizer.schedule={type: $type}' | --optimizer.schedule.warmup_steps=2
optimizer.schedule.$type.warmup_ratio | r.yaml '--optimizer.schedule={type: $type}' | --optimizer.schedule.warmup_ratio=0.5
optimizer.schedule.$type.warmup_type | r.yaml '--optimizer.schedule={type: $type, warmup_steps: 2}' | --optimizer.schedule.warmup_type=quadratic
R
done >>options
for type in cosine cosine_with_restarts exponential linear polynomial rex; do
  cat <<R
optimizer.schedule.$type.final_ratio | r.yaml '--optimizer.schedule={type: $type}' | --optimizer.schedule.final_ratio=0.5
R
done >>options
for type in cosine cosine_with_restarts linear polynomial rex; do
  cat <<R
optimizer.schedule.$type.fall_ratio | r.yaml '--optimizer.schedule={type: $type}' | --optimizer.schedule.fall_ratio=0.75
R
done >>options
for type in constant cosine cosine_with_restarts exponential inverse_sqrt linear polynomial rex; do
  cat <<R
optimizer.schedule.$type.cooldown_steps | r.yaml '--optimizer.schedule={type: $type}' | --optimizer.schedule.cooldown_steps=2
optimizer.schedule.$type.cooldown_ratio | r.yaml '--optimizer.schedule={type: $type, cooldown_steps: 2}' | --optimizer.schedule.cooldown_ratio=0.3
R
done >>options

# "a.b" for each row of the reference page; below a heading of a choice "section.type.b".
known_options() {
  hone docs recipe | sed -nE -e 's/^## `([a-z_.]+): \{type: ([a-z0-9_]+)\}`.*/# \1.\2/p' -e 's/^\| `([^`]+)` \| ([^|]*) \| ([^|]*) \|.*/\1 \3/p' |
    awk '/^# / { prefix = $2 "."; next } $2 == "section" { next } { print prefix $1 }'
}

# The file of what `trace` tells of a command. Many rows begin with the same one: it is run once.
told_by() {
  local trace=$1 command=$2 file
  file=told-$(sha256sum <<<"$trace $command" | cut -c1-32)
  if [ ! -e "$file" ]; then
    eval "set -- $command"
    "$trace" "$@" >"$file"
  fi
  echo "$file"
}

# Each row of a file (what | command | the change): what `trace` tells of the command differs with the change.
check_rows() {
  local file=$1 trace=$2 what base change without
  while IFS='|' read -r what base change; do
    [ -n "${change// /}" ] || continue
    without=$(told_by "$trace" "$base")
    eval "set -- $base $change"
    "$trace" "$@" >with
    if cmp -s "$without" with; then complain "${what% }: $change changes nothing"; fi
  done <"$file"
}

check_options() {
  check_rows options trace
  local option
  for option in $(known_options); do
    if ! grep -qF "$option |" options; then complain "option $option: no row in tests/cli/intent_slow_test.sh"; fi
  done
}

# ---------------------------------------------------------------------------------------------------- flags of commands
# What can be told of a command: what it prints and writes.
trace_command() {
  rm -rf new
  mkdir new
  cp -r kept/run new/run
  cp -r words new/there
  local code=0
  (cd new && hone "$@" </dev/null >log 2>&1) || code=$?
  echo "exit $code"
  sed -E "$times" new/log
  (cd new && find . -type f ! -name log ! -path '*/cache/*' | sort | xargs sha256sum)
}

cat >flags <<'R'
train --set | train ../n.yaml | --set ../set.yaml
train --resume | train ../n.yaml | --resume 99
train --from | a checkpoint: tests/cli/checkpoint.test |
train --override | train ../n.yaml --run.folder=run --data.max_length=16 | --override data
train --replay | a step that was not finite: tests/cli/replay.test |
train --gradients | train ../n.yaml | --gradients g.safetensors
train --new | train ../n.yaml --run.folder=run | --new
train --strict-resume | train ../n.yaml --run.folder=run --trainer.steps=6 | --strict-resume
train --dry-run | train ../n.yaml | --dry-run
train --allow-unknown | train ../unknown.yaml --quiet | --allow-unknown
train --json | train ../n.yaml | --json
train --quiet | train ../n.yaml '--trackers=[{type: terminal, plain_every_s: 0}]' | --quiet
train --space-check | needs a full disk: tests/cli/disk_full_test.sh |
launch --n | what stands behind the command is not launch's: tests/cli/launch_test.sh |
launch --threads | likewise |
launch --timeout | likewise |
launch --json | likewise |
launch --quiet | likewise |
checkpoint --keep | checkpoint prune run --keep 1 | --keep 2
checkpoint --last | several checkpoints: tests/cli/checkpoint.test |
checkpoint --best | several checkpoints: tests/cli/checkpoint.test |
checkpoint --out | several checkpoints: tests/cli/checkpoint.test |
checkpoint --replace | several checkpoints: tests/cli/checkpoint.test |
test --checkpoint | several checkpoints: tests/cli/test.test |
test --data | a run: tests/cli/test.test |
checkpoint --dry-run | checkpoint prune run --keep 1 | --dry-run
teach --data | teach ../m1 --data ../d.jsonl | --data ../e.jsonl
teach --out | teach ../m1 --data ../d.jsonl | --out said.jsonl
teach --top-k | teach ../m1 --data ../d.jsonl | --top-k 2
teach --temperature | teach ../m1 --data ../d.jsonl | --temperature 2
teach --columns | teach ../m1 --data ../d.jsonl | --columns text=story
teach --ignore | teach ../m1 --data ../l.jsonl | --ignore label
teach --tokenizer | teach ../m1 --data ../d.jsonl | --tokenizer nowhere
teach --adapter | teach ../m1 --data ../d.jsonl | --adapter nowhere
teach --append-eos | teach ../m1 --data ../d.jsonl | --no-append-eos
teach --loss | teach ../m1 --data ../p.jsonl | --loss all
teach --chat-template | teach ../m1 --data ../c.jsonl --chat-template alpaca | --chat-template zephyr
teach --chat-template-kwargs | teach ../m1 --data ../c.jsonl --chat-template "$shows_x" --loss all | --chat-template-kwargs '{"x": "b"}'
teach --max-length | teach ../m1 --data ../d.jsonl | --max-length 4
teach --max-samples | teach ../m1 --data ../d.jsonl | --max-samples 2
teach --batch-size | speed: documents are independent of each other, tests/cli/teach.test |
teach --precision | teach ../m1 --data ../d.jsonl | --precision bf16
teach --device | teach ../m1 --data ../d.jsonl | --device nowhere
teach --quantization.type | teach ../m1 --data ../d.jsonl | --quantization int8
teach --quantization.double-quant | teach ../m1 --data ../d.jsonl --quantization nf4 | --no-quantization.double-quant
teach --quantization.skip | teach ../m1 --data ../d.jsonl --quantization nf4 | --quantization.skip q_proj
teach --json | a line of JSON for each record, with it and without |
embed --text | embed ../m1 --text a | --text b
embed --data | embed ../m1 --text a | --data ../d.jsonl
embed --columns | embed ../m1 --data ../d.jsonl | --columns text=story
embed --tokenizer | embed ../m1 --text a | --tokenizer nowhere
embed --adapter | embed ../m1 --text a | --adapter nowhere
embed --prompt-name | embed ../m1 --text a | --prompt-name query
embed --prompt | embed ../m1 --text a | --prompt "Q: "
embed --as | tests/cli/late_interaction.test |
embed --pooling | embed ../m1 --text abc | --pooling mean
embed --normalize | embed ../m1 --text a | --no-normalize
embed --dims | embed ../m1 --text a | --dims 4
embed --max-active-dims | tests/cli/sparse.test |
embed --max-length | embed ../m1 --data ../d.jsonl | --max-length 2
embed --batch-size | speed: documents are independent of each other, tests/cli/embed.test |
embed --out | embed ../m1 --text a | --out v.safetensors
embed --precision | embed ../m1 --text a | --precision fp64
embed --device | embed ../m1 --text a | --device nowhere
embed --quantization.type | embed ../m1 --text a | --quantization int8
embed --quantization.double-quant | embed ../m1 --text a --quantization nf4 | --no-quantization.double-quant
embed --quantization.skip | embed ../m1 --text a --quantization nf4 | --quantization.skip q_proj
embed --json | a line of JSON for each text, with it and without |
embed --quiet | embed ../m1 --data ../l.jsonl | --quiet
eval --data | eval ../m1 --data ../d.jsonl | --data ../e.jsonl
eval --columns | eval ../m1 --data ../d.jsonl | --columns text=story
eval --image-folder | needs pictures: tests/cli/images.test |
eval --ignore | eval ../m1 --data ../l.jsonl | --ignore label
eval --metric | eval ../m1 --data ../p.jsonl | --metric exact_match
eval --device | eval ../m1 --data ../d.jsonl | --device nowhere
eval --tokenizer | eval ../m1 --data ../d.jsonl | --tokenizer nowhere
eval --adapter | eval ../m1 --data ../d.jsonl | --adapter ../made
eval --logits | eval ../m1 --data ../d.jsonl | --logits l.safetensors
eval --max-length | eval ../m1 --data ../d.jsonl | --max-length 8
eval --overlong | eval ../m1 --data ../d.jsonl --max-length 8 | --overlong drop
eval --packing | eval ../m1 --data ../d.jsonl --logits l.safetensors | --packing best_fit
eval --batch-size | speed: rows are independent of each other, tests/evals |
eval --append-eos | eval ../m1 --data ../d.jsonl | --no-append-eos
eval --loss | eval ../m1 --data ../p.jsonl | --loss all
eval --chat-template | eval ../m1 --data ../c.jsonl | --chat-template zephyr
eval --chat-template-kwargs | eval ../m1 --data ../c.jsonl --chat-template "$shows_x" | --chat-template-kwargs '{"x": "y"}'
eval --src-lang | eval ../t5 --data ../p.jsonl | --src-lang en_XX
eval --tgt-lang | eval ../t5 --data ../p.jsonl | --tgt-lang en_XX
eval --label-all-tokens | eval ../tok --data ../tagged.jsonl | --label-all-tokens
eval --doc-stride | eval ../answers --data ../squad.jsonl --max-length 20 --doc-stride 4 | --doc-stride 1
eval --step-separator | eval ../prm --data ../steps.jsonl | --step-separator ::
eval --json | eval ../m1 --data ../d.jsonl | --json
eval --precision | eval ../m1 --data ../d.jsonl --logits l.safetensors | --precision fp64
eval --quantization.type | eval ../m1 --data ../d.jsonl --json | --quantization int8
eval --quantization.double-quant | eval ../m1 --data ../d.jsonl --json --quantization nf4 | --no-quantization.double-quant
eval --quantization.skip | eval ../m1 --data ../d.jsonl --json --quantization nf4 | --quantization.skip q_proj
classify --text | classify ../cls --text a | --text b
classify --text-pair | classify ../cls --text a | --text-pair b
classify --data | classify ../cls --text a | --data ../d.jsonl
classify --columns | classify ../cls --data ../d.jsonl --json | --columns text=story
classify --tokenizer | classify ../cls --text a | --tokenizer nowhere
classify --adapter | classify ../cls --text a | --adapter nowhere
classify --chat-template | classify ../score --data ../c.jsonl | --chat-template zephyr
classify --max-length | classify ../cls --data ../d.jsonl | --max-length 2
classify --batch-size | speed: documents are independent of each other, tests/cli/classify.test |
classify --words | classify ../tok --text a --json | --words
classify --step-separator | classify ../prm --data ../steps.jsonl | --step-separator ::
classify --question | classify ../answers --context 'a1 b c' --question a | --question 'text some'
classify --context | classify ../answers --question a --context 'a1 b c' | --context 'c d e'
classify --n-best | classify ../answers --data ../squad.jsonl | --n-best 3
classify --max-answer-length | classify ../answers --data ../squad.jsonl --n-best 20 | --max-answer-length 1
classify --doc-stride | classify ../answers --data ../squad.jsonl --max-length 20 --n-best 20 | --doc-stride 1
classify --null-threshold | classify ../answers --data ../squad.jsonl | --null-threshold -1000
classify --precision | classify ../cls --text a --json | --precision fp64
classify --device | classify ../cls --text a | --device nowhere
classify --quantization.type | classify ../cls --text a --json | --quantization int8
classify --quantization.double-quant | classify ../cls --text a --json --quantization nf4 | --no-quantization.double-quant
classify --quantization.skip | classify ../cls --text a --json --quantization nf4 | --quantization.skip q_proj
classify --json | classify ../cls --text a | --json
classify --quiet | classify ../cls --data ../l.jsonl | --quiet
generate --device | generate ../m1 --max-new-tokens 4 --prompt a | --device nowhere
generate --prompt | generate ../m1 --max-new-tokens 4 --prompt a | --prompt b
generate --prompts | generate ../m1 --max-new-tokens 4 | --prompts ../p.jsonl
generate --chat | generate ../m1 --max-new-tokens 4 --prompt a | --chat
generate --system | generate ../m1 --max-new-tokens 4 --prompt a --chat --chat-template "$no_system" | --system s
generate --chat-template | generate ../m1 --max-new-tokens 4 --prompt a --chat | --chat-template zephyr
generate --chat-template-kwargs | generate ../m1 --max-new-tokens 4 --prompt a --chat --chat-template "$no_x" | --chat-template-kwargs '{"x": "y"}'
generate --tokenizer | generate ../m1 --max-new-tokens 4 --prompt a | --tokenizer nowhere
generate --adapter | generate ../m1 --max-new-tokens 16 --prompt a --json | --adapter ../made
merge --adapter | merge ../m1 --out x | --adapter ../made
merge --out | merge ../made --out x | --out y
merge --replace | merge ../made --out there | --replace
merge --precision | merge ../made --out x | --precision bf16
extend --special-tokens | extend ../m1 --tokens a --out x | --special-tokens b
extend --tokens | extend ../m1 --tokens a --out x | --tokens b
extend --bos | extend ../m1 --tokens ab --out x --json | --bos nowhere
extend --eos | extend ../m1 --tokens ab --out x --json | --eos nowhere
extend --pad | extend ../m1 --tokens ab --out x --json | --pad nowhere
extend --mask | extend ../m1 --tokens ab --out x --json | --mask nowhere
extend --multiple | extend ../m1 --tokens ab --out x | --multiple 512
extend --out | extend ../m1 --tokens ab --out x | --out y
extend --replace | extend ../m1 --tokens ab --out there | --replace
generate --max-new-tokens | generate ../m1 --prompt a --max-new-tokens 4 --json | --max-new-tokens 2
generate --temperature | generate ../m1 --prompt a --max-new-tokens 16 --temperature 0 --json | --temperature 2
generate --top-k | generate ../m1 --prompt a --max-new-tokens 16 --temperature 2 --json | --top-k 1
generate --top-p | generate ../m1 --prompt a --max-new-tokens 16 --temperature 2 --json | --top-p 0.01
generate --min-p | generate ../m1 --prompt a --max-new-tokens 16 --temperature 2 --json | --min-p 0.99
generate --regex | generate ../m1 --prompt a --max-new-tokens 16 --json | --regex '[a-z]{3}'
generate --json-schema | generate ../m1 --prompt a --max-new-tokens 16 --json | --json-schema '{"const": 5}'
generate --repetition-penalty | generate ../m1 --prompt "some words to start with" --max-new-tokens 16 --temperature 0 --json | --repetition-penalty 9
generate --presence-penalty | generate ../m1 --prompt a --max-new-tokens 16 --temperature 0 --json | --presence-penalty -90
generate --frequency-penalty | generate ../m1 --prompt a --max-new-tokens 16 --temperature 0 --json | --frequency-penalty -90
generate --max-length | generate ../m1 --prompt "some words" --temperature 0 --json | --max-length 12
generate --min-length | generate ../m1 --prompt a --max-new-tokens 16 --temperature 0 --eos-token-id 32 --json | --min-length 99
generate --min-new-tokens | generate ../m1 --prompt a --max-new-tokens 16 --temperature 0 --json | --min-new-tokens 99
generate --no-repeat-ngram-size | generate ../m1 --prompt "some words to start with" --max-new-tokens 16 --temperature 0 --json | --no-repeat-ngram-size 1
generate --suppress-tokens | generate ../m1 --prompt a --max-new-tokens 16 --temperature 0 --json | --suppress-tokens 999
generate --eos-token-id | generate ../m1 --prompt a --max-new-tokens 16 --temperature 0 --json | --eos-token-id 999
generate --forced-bos-token-id | generate ../t5 --prompt a --max-new-tokens 4 --json | --forced-bos-token-id 65
generate --forced-eos-token-id | generate ../t5 --prompt a --max-new-tokens 4 --json | --forced-eos-token-id 65
generate --length-penalty | generate ../m1 --prompt "some words" --max-new-tokens 16 --temperature 0 --json | --length-penalty 2
generate --early-stopping | generate ../m1 --prompt "some words" --max-new-tokens 16 --temperature 0 --json | --early-stopping true
generate --num-beams | generate ../m1 --prompt "some words" --max-new-tokens 16 --temperature 0 --json | --num-beams 4
generate --src-lang | generate ../t5 --prompt a --max-new-tokens 2 | --src-lang en_XX
generate --tgt-lang | generate ../t5 --prompt a --max-new-tokens 2 | --tgt-lang en_XX
generate --stop | generate ../m1 --prompt a --max-new-tokens 16 --temperature 2 --top-k 3 --json | --stop ''
generate --seed | generate ../m1 --prompt a --max-new-tokens 16 --temperature 2 --json | --seed 5
generate --image | needs a model that reads pictures: tests/cli/images.test |
generate --ignore-eos | needs a model that ends its texts: tests/generate |
generate --batch-size | speed: prompts are independent of each other, tests/generate |
serve --embeddings | tests/cli/serve_test.sh |
serve --host | tests/cli/serve_test.sh |
serve --port | tests/cli/serve_test.sh |
serve --name | tests/cli/serve_test.sh |
serve --api-key | tests/cli/serve_test.sh |
serve --allow-origin | tests/cli/serve_test.sh |
serve --batch-size | tests/cli/serve_test.sh |
serve --queue | tests/cli/serve_test.sh |
serve --log-requests | tests/cli/serve_test.sh |
serve --prompt-cache | tests/cli/serve_test.sh |
serve --max-length | tests/cli/serve_test.sh |
serve --tokenizer | tests/cli/serve_test.sh |
serve --adapter | tests/cli/serve_test.sh |
serve --chat-template | tests/cli/serve_test.sh |
serve --chat-template-kwargs | tests/cli/serve_test.sh |
serve --precision | tests/cli/serve_test.sh |
serve --quantization.type | tests/cli/serve_test.sh |
serve --device | tests/cli/serve_test.sh |
serve --quantization.double-quant | tests/cli/serve_test.sh |
serve --quantization.skip | tests/cli/serve_test.sh |
serve --json | tests/cli/serve_test.sh |
serve --quiet | tests/cli/serve_test.sh |
generate --quantization.type | generate ../m1 --prompt a --max-new-tokens 4 | --quantization int8
generate --quantization.double-quant | generate ../m1 --prompt a --max-new-tokens 4 --quantization nf4 | --no-quantization.double-quant
generate --quantization.skip | generate ../m1 --prompt a --max-new-tokens 4 --quantization nf4 | --quantization.skip q_proj
generate --json | generate ../m1 --prompt a --max-new-tokens 4 | --json
generate --stream | time: when the text is printed, tests/cli/generate.test |
generate --stats | generate ../m1 --prompt a --max-new-tokens 4 | --stats
generate --precision | generate ../m1 --prompt a --max-new-tokens 4 --temperature 0 | --precision fp8
tokenize --decode | tokenize bytes "65 66" | --decode
tokenize --special | tokenize bytes --decode "65 257" | --no-special
tokenize --json | tokenize bytes a | --json
tokenize --chat | tokenize ../m1 a | --chat
tokenize --loss | tokenize ../m1 --chat --chat-template zephyr "$(cat c.jsonl)" | --loss all
tokenize --chat-template | tokenize ../m1 --chat --chat-template alpaca "$(cat c.jsonl)" | --chat-template zephyr
tokenize --chat-template-kwargs | tokenize ../m1 --chat --chat-template "$shows_x" "$(cat c.jsonl)" | --chat-template-kwargs '{"x": "y"}'
tokenize --lines | tokenize bytes "$(printf 'a\nb')" | --lines
tokenize --characters | tokenize bytes é --json | --characters
tokenize --rendered | tokenize ../m1 --chat --chat-template zephyr "$(cat c.jsonl)" | --rendered
tokenizer --kind | tokenizer train ../d.jsonl --vocab-size 300 --out t | --kind unigram
tokenizer --vocab-size | tokenizer train ../d.jsonl --vocab-size 300 --out t | --vocab-size 280
tokenizer --min-frequency | tokenizer train ../d.jsonl --vocab-size 300 --out t | --min-frequency 20
tokenizer --special-tokens | tokenizer train ../d.jsonl --vocab-size 300 --out t | --special-tokens '<x>'
tokenizer --columns | tokenizer train ../d.jsonl --vocab-size 300 --out t | --columns text=story
tokenizer --ignore | tokenizer train ../q.jsonl --vocab-size 300 --out t | --ignore text_pair
tokenizer --lowercase | tokenizer train ../u.txt --vocab-size 300 --kind word_piece --out t | --no-lowercase
tokenizer --threads | speed: the same tokenizer, tests/text/train_test.cc |
tokenizer --out | tokenizer train ../d.jsonl --vocab-size 300 --out t | --out u
tokenizer --replace | tokenizer train ../d.jsonl --vocab-size 300 --out there | --replace
inspect --set | inspect recipe ../n.yaml | --set ../set.yaml
inspect --allow-unknown | inspect recipe ../unknown.yaml | --allow-unknown
inspect --full | inspect checkpoint run/checkpoints/step-00000004 | --full
inspect --json | inspect data ../d.jsonl | --json
inspect --show | inspect data ../d.jsonl | --no-show
inspect --records | inspect data ../d.jsonl | --records 2
inspect --data.tokenizer | inspect data ../d.jsonl | --data.tokenizer ../words
inspect --data.columns | inspect data ../d.jsonl | --data.columns text=story
inspect --data.ignore | inspect data ../l.jsonl | --data.ignore label
inspect --data.image-folder | needs pictures: tests/cli/images.test |
inspect --data.max-length | inspect data ../d.jsonl | --data.max-length 8
inspect --data.overlong | inspect data ../d.jsonl --data.max-length 8 | --data.overlong drop
inspect --data.packing | inspect data ../d.jsonl | --data.packing none
inspect --data.records | inspect data ../k.jsonl | --data.records labelled
inspect --data.problem-type | inspect data ../k.jsonl --data.records labelled | --data.problem-type regression
inspect --data.label-all-tokens | inspect data ../tagged.jsonl --data.records tagged | --data.label-all-tokens
inspect --data.step-separator | inspect data ../steps.jsonl --data.records steps | --data.step-separator ::
inspect --data.doc-stride | inspect data ../squad.jsonl --data.records question --data.tokenizer ../pieces --data.max-length 20 --data.doc-stride 4 | --data.doc-stride 1
inspect --data.append-eos | inspect data ../d.jsonl | --no-data.append-eos
inspect --data.loss | inspect data ../p.jsonl | --data.loss all
inspect --data.chat-template | inspect data ../c.jsonl | --data.chat-template zephyr
inspect --data.chat-template-kwargs | inspect data ../c.jsonl --data.chat-template "$shows_x" | --data.chat-template-kwargs '{"x": "y"}'
inspect --data.max-samples | inspect data ../d.jsonl | --data.max-samples 3
init --config | init n --model.type=llama --model.hidden_size=16 --model.intermediate_size=32 --model.num_hidden_layers=1 --model.num_attention_heads=2 --tokenizer bytes | --config ../m1/config.json
init --tokenizer | init n --config ../m1/config.json | --tokenizer ../words
init --seed | init n --config ../m1/config.json | --seed 9
init --replace | init there --config ../m1/config.json | --replace
init --precision | init n --config ../m1/config.json | --precision bf16
bench --set | bench ../n.yaml --steps 1 --warmup 0 --json | --set ../broken.yaml
bench --steps | bench ../n.yaml --steps 1 --warmup 0 --json | --steps none
bench --warmup | bench ../n.yaml --steps 1 --warmup 0 --json | --warmup none
bench --length | bench ../n.yaml --steps 1 --warmup 0 | --length 16
bench --batch-size | bench ../n.yaml --steps 1 --warmup 0 | --batch-size 1
bench --allow-unknown | bench ../unknown.yaml --steps 1 --warmup 0 --json | --allow-unknown
plan --set | plan ../n.yaml --no-measure | --set ../set.yaml
plan --ranks | plan ../n.yaml --no-measure --trainer.accumulate=2 --json | --ranks 2
plan --measure | plan ../n.yaml --json | --no-measure
plan --steps | plan ../n.yaml --json | --steps none
export --out | export run --out x | --out y
export --max-shard-size | export run --out x | --max-shard-size 4KB
export --checkpoint | export run --out x | --checkpoint 2
export --merge | export ../made --out x | --merge
export --dtype | export run --out x | --dtype bf16
export --gguf | export run --out x | --gguf f16
export --quantization.type | export run --out x | --quantization int8
export --quantization.double-quant | export run --out x --quantization nf4 | --no-quantization.double-quant
export --quantization.skip | export run --out x --quantization nf4 | --quantization.skip q_proj
export --grid.type | export run --out x | --grid float8
export --grid.activation-dtype | export run --out x --grid float8 | --grid.activation-dtype float8
export --grid.group-size | export run --out x --grid int8 | --grid.group-size 2
export --replace | export run --out there | --replace
export --license | export run --out x | --license mit
export --base-model | export run --out x | --base-model org/base
export --dataset | export run --out x | --dataset org/set
export --language | export run --out x | --language en
export --tag | export run --out x | --tag small
export --repo | export run --out x | --repo org/name
export --revision | export run --out x | --revision v2
export --commit-message | export run --out x | --commit-message 'a b'
export --commit-description | export run --out x | --commit-description 'a b'
export --private | export run --out x | --private
export --create-pr | export run --out x | --create-pr
bench --json | bench ../n.yaml --steps 1 --warmup 0 | --json
docs --out | docs recipe | --out pages
R
echo 'trainer: {steps: 3}' >set.yaml
echo 'trainer: [' >broken.yaml
sed 's/^trainer: {/trainer: {no_such_key: 1, /; s/train: d.jsonl/train: ..\/d.jsonl/' r.yaml >unknown.yaml

# Templates that say so when they are given what the flag gives.
no_system='{% if messages[0].role == "system" %}{{ raise_exception("a system message") }}{% endif %}{{ messages[0].content }}'
no_x='{% if x %}{{ raise_exception("x is " ~ x) }}{% endif %}{{ messages[0].content }}'
echo 'Some Words In Upper Case, Some Words Not' >u.txt

check_flags() {
  sed 's/train: d.jsonl/train: ..\/d.jsonl/' r.yaml >n.yaml
  mkdir kept
  (cd kept && hone train ../n.yaml --run.folder=run >/dev/null 2>&1)
  check_rows flags trace_command
  local command flag
  for command in $(hone --help | sed -nE 's/^  ([a-z]+)  +[A-Z].*/\1/p'); do
    for flag in $(hone "$command" --help | grep -oE '^  --[a-z.-]+'); do
      case $flag in --json | --quiet) continue ;; esac  # every command's: tests/cli/json.test
      grep -q "^$command $flag |" flags || complain "flag $flag of $command: no row in tests/cli/intent_slow_test.sh"
    done
  done
}

# Else whatever the rows compare would differ anyway.
check_trace() {
  trace r.yaml --callbacks=[memory] >once
  trace r.yaml --callbacks=[memory] >twice
  if ! cmp -s once twice; then complain "two equal runs can be told apart: $(diff once twice)"; fi
}

check_trace
check_options
check_flags
[ "$failures" = 0 ]
