#!/usr/bin/env bash
# hone serve: what it says, an answer by its socket beside hone generate's, a stop that finishes what is begun.
set -euo pipefail
fail() { printf 'FAILED: %s\n' "$*" >&2; cat out log >&2 2>/dev/null || true; exit 1; }
work=$(mktemp -d)
trap 'kill -9 "${child:-0}" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
hone init m --model.type=llama --model.hidden_size=32 --model.intermediate_size=48 --model.num_hidden_layers=2 \
  --model.num_attention_heads=2 --model.max_position_embeddings=3000 --tokenizer bytes >/dev/null
for i in $(seq 12); do echo "{\"text\": \"abcd $i\"}"; done >t.jsonl

start() {
  rm -f out  # of a former one
  hone serve m --port 0 "$@" >out 2>log &
  child=$!
  for _ in $(seq 300); do
    if grep -q 'http:' out 2>/dev/null; then break; fi
    kill -0 $child 2>/dev/null || fail "it ended"
    sleep 0.05
  done
  port=$(sed -n 's|.*http://[a-z0-9.]*:\([0-9]*\)[/"].*|\1|p' out)
  [ -n "$port" ] || fail "no port"
}
# ask METHOD PATH BODY: the answer's body
ask() {
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  printf '%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s' \
    "$1" "$2" "${key:-}" ${#3} "$3" >&3
  cat <&3
  exec 3<&-
}

start
grep -q "^m at http://127.0.0.1:$port/v1 (no chat template: /v1/completions only): 16 answers at a time, of up to 3000" \
  out || fail "first line"
written() { hone generate m "$@" --json | sed 's/.*"text":\("[^,]*"\),"ids.*/\1/'; }
expected=$(written --prompt 'ab' --max-new-tokens 12 --temperature 0.9 --seed 4)
got=$(ask POST /v1/completions '{"prompt": "ab", "max_tokens": 12, "temperature": 0.9, "seed": 4}')
grep -qF "\"text\":$expected" <<<"$got" || fail "got $got, expected $expected"
ask POST /v1/chat/completions '{"messages": []}' | grep -q 'no chat template' || fail "a chat without a template"
ask GET /v1/models '' | grep -q '"id":"m"' || fail "models"

stop() {
  kill -TERM $child
  wait $child || fail "exit $?"
}
stop

# Each flag does what it says.
template='{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}{{ mark }}{% endif %}'
hone train --adapter lora --model.path=m --data.train="$PWD/t.jsonl" --run.folder=lora --trainer.steps=2 \
  --data.packing=none --data.eval.held_out=0 --trainer.eval_every=0 --optimizer.learning_rate=0.5 --quiet \
  >/dev/null 2>&1 || fail "no adapter"
start --name other --max-length 100 --batch-size 3 --chat-template "$template" --chat-template-kwargs '{"mark": "cd"}' \
  --allow-origin http://a --adapter lora
grep -q "^other at .*/v1: 3 answers at a time, of up to 100 tokens" out || fail "$(cat out)"
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3
cat <&3 | grep -q 'Access-Control-Allow-Origin: http://a' || fail "no origin"
exec 3<&-
text_of() { sed 's/.*"\(text\|content\)":\("[^,]*"\)[,}].*/\2/'; }
says='{"messages": [{"role": "user", "content": "ab"}], "max_tokens": 9, "temperature": 0, "ignore_eos": true'
chat=$(ask POST /v1/chat/completions "$says}" | tail -1)
grep -q '"prompt_tokens":4' <<<"$chat" || fail "the template's variable is not in $chat"
own=$(ask POST /v1/chat/completions "$says, \"chat_template_kwargs\": {\"mark\": \"\"}}")
grep -q '"prompt_tokens":2' <<<"$own" || fail "a request's own variable is not in $own"
ask POST /v1/completions '{"prompt": "a", "n": 4}' | grep -q 'expected a whole number from 1 to 3' || fail "n"
whole='{"messages": [{"role": "user", "content": "ab"}], "add_generation_prompt": false}'
ask POST /tokenize "$whole" | grep -q '"count":2' || fail "a chat that is not answered: $(ask POST /tokenize "$whole")"
adapted=$(written --adapter lora --prompt abcd --max-new-tokens 9 --ignore-eos)
[ "$(text_of <<<"$chat")" = "$adapted" ] || fail "with the adapter got $chat, expected $adapted"
stop
for wrong in --device --tokenizer --adapter; do
  if hone serve m --port 0 $wrong nowhere >/dev/null 2>err; then fail "$wrong nowhere"; fi
done
for one in '--precision bf16' '--quantization nf4 --no-quantization.double-quant' \
  '--quantization int8 --quantization.skip q_proj' '--queue 1' '--host localhost' '--quiet'; do
  start $one
  ask POST /v1/completions '{"prompt": "ab", "max_tokens": 2}' | grep -q '"completion_tokens":2' || fail "$one"
  stop
done

start --json
grep -qF "{\"url\":\"http://127.0.0.1:$port\",\"model\":\"m\",\"batch_size\":16,\"max_length\":3000,\"chat\":false}" \
  out || fail "$(cat out)"
stop

status=0; hone serve m --port 0 --api-key '' >/dev/null 2>err || status=$?
[ $status = 2 ] || fail "an empty key was taken"
start --max-length 5000
grep -q 'warning: --max-length: got 5000, but the model was made for 3000 tokens' log || fail "no warning"
stop

# Vectors of texts: those of hone embed.
start --embeddings --max-length 50 --batch-size 2
grep -q "^m at http://127.0.0.1:$port/v1/embeddings: vectors of 32 numbers, of texts of up to 50 tokens" out ||
  fail "$(cat out)"
got=$(ask POST /v1/embeddings '{"input": ["xyz", "abc"], "dimensions": 6}' | grep -o '"embedding":\[[^]]*\]')
expected=$(hone embed m --dims 6 --text xyz --text abc | grep -o '"embedding":\[[^]]*\]')
rounded() { sed -E 's/(\.[0-9]{4})[0-9]*/\1/g' <<<"$1"; }
[ "$(rounded "$got")" = "$(rounded "$expected")" ] || fail "vectors: got $got, expected $expected"
ask POST /v1/completions '{"prompt": "a"}' | grep -q 'no such path' || fail "a model of vectors answers"
stop
status=0; hone serve m --port 0 --embeddings --prompt-cache 5 2>err || status=$?
[ $status = 2 ] && grep -q 'prompt-cache: not of a model that gives vectors' err || fail "$(cat err)"
cp -r m sentences
printf '%s' '[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
  {"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"}]' >sentences/modules.json
mkdir sentences/1_Pooling
echo '{"word_embedding_dimension":32,"pooling_mode_mean_tokens":true}' >sentences/1_Pooling/config.json
mv m language && cp -r sentences m
start
grep -q '/v1/embeddings' out || fail "a folder of sentence-transformers gives answers: $(cat out)"
stop
start --embeddings=false
grep -q 'answers at a time' out || fail "--embeddings=false: $(cat out)"
stop
rm -r m && mv language m

# Scores of pairs: those of sentence-transformers' CrossEncoder.
golden=$HONE_SOURCE/tests/golden/train/cross_encoder
mv m language && cp -r "$golden/model" m
start --batch-size 5
grep -q "^m at http://127.0.0.1:$port/v1/rerank: scores of pairs of up to" out || fail "$(cat out)"
column() { sed "s/.*\"$1\": *\(\"[^\"]*\"\).*/\1/" "$golden/pairs.jsonl" | paste -sd,; }
# Of all numbers there are the golden file's come first.
numbers() { grep -o '[-0-9.e]*[0-9]'; }
tr -d ' \n' <"$golden/scores.json" | sed 's/.*"scores":\[\([^]]*\)\].*/\1/' | numbers >expected
ask POST /v1/score "{\"text_1\": [$(column text)], \"text_2\": [$(column text_pair)]}" |
  grep -o '"score":[-0-9.e]*' | cut -d: -f2 >got
[ "$(wc -l <got)" = 12 ] || fail "scores: $(cat got)"
paste expected got | awk '{ if ($1 - $2 > 1e-6 || $2 - $1 > 1e-6) exit 1 }' || fail "scores: $(paste expected got)"
ask POST /v1/rerank '{"query": "what of rain?", "documents": ["tea: 1", "rain: 0"], "top_n": 1}' |
  grep -q '"results":\[{"index":[01],"relevance_score":0.54428' || fail "rerank"
ask POST /v1/completions '{"prompt": "a"}' | grep -q 'no such path' || fail "a model of scores answers"
stop
# Of pairs that are as long as the folder says, and are cut as that package cuts them.
chmod -R u+w m && sed -i 's/"model_max_length": 64/"model_max_length": 20/' m/tokenizer_config.json
start
grep -q 'of up to 20 tokens$' out || fail "the folder's length: $(cat out)"
pair='"text_1": "what of rain and of bread and of trains and of tea and of maps?",
  "text_2": "rain: 0 bread: 1 trains: 2 tea: 3 maps: 4"'
ask POST /v1/score "{$pair, \"truncate_prompt_tokens\": -1}" | grep -q '"score":0.51967' || fail "a pair that is cut"
stop
start --max-length 30
grep -q 'of up to 30 tokens$' out || fail "--max-length: $(cat out)"
stop
status=0; hone serve m --port 0 --prompt-cache 5 2>err || status=$?
[ $status = 2 ] && grep -q 'prompt-cache: not of a model that gives scores' err || fail "$(cat err)"
rm -r m && mv language m

# A line for each request, or none; what it counts.
start
ask POST /v1/completions '{"prompt": "hidden", "max_tokens": 2, "ignore_eos": true}' >/dev/null
ask GET /metrics '' | grep -q '^hone_requests_total{route="/v1/completions",status="200"} 1' || fail "metrics"
stop
grep -Eq '^[-0-9]+T[0-9:]+Z 127.0.0.1 POST /v1/completions 200 [0-9.]+ ms, [0-9]+ tokens in, 2 out$' log ||
  fail "no line"
grep -q 'hidden\|metrics' log && fail "a text or a probe is in the log"
start --no-log-requests
ask GET /v1/models '' >/dev/null
stop
grep -q models log && fail "a line that nobody asked for"

# A stop finishes what is begun.
start
exec 4<>"/dev/tcp/127.0.0.1/$port"
body='{"prompt": "ab", "max_tokens": 1500, "ignore_eos": true, "stream": true}'
printf 'POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' \
  ${#body} "$body" >&4
read -r -n 40 _ <&4
kill -TERM $child
cat <&4 >rest
grep -q 'data: \[DONE\]' rest || fail "the answer was cut off"
status=0; wait $child || status=$?
[ $status = 0 ] || fail "exit $status after SIGTERM"
grep -q 'finishing the answers' log || fail "it does not say that it ends"

# A key of the environment; a port that is taken.
export HONE_API_KEY=secret
start
ask GET /v1/models '' | grep -q '"code":"invalid_api_key"' || fail "no key was asked for"
key=$'Authorization: Bearer secret\r\n'
ask GET /v1/models '' | grep -q '"id":"m"' || fail "with its key"
status=0; hone serve m --port "$port" 2>err || status=$?
[ $status = 2 ] || fail "exit $status of a port that is taken"
grep -q "^error: cannot listen at 127.0.0.1, port $port: Address already in use" err || fail "$(cat err)"
kill -INT $child
status=0; wait $child || status=$?
[ $status = 0 ] || fail "exit $status after SIGINT"
