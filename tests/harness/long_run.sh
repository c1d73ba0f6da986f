# For scripts to read: a long run in a folder of its own, started in the background and waited for.
# r.yaml is its recipe, $child the process, log what it says; all are gone when the script ends.
folder=$(mktemp -d)
child=
trap 'if [ -n "$child" ]; then kill -9 "$child" 2>/dev/null || true; fi; rm -rf "$folder"' EXIT
cd "$folder"
for i in $(seq 50); do echo "{\"text\": \"a text of about thirty letters $i\"}"; done >d.jsonl
cat >r.yaml <<R
model: {type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2}
tokenizer: bytes
data: {train: d.jsonl, max_length: 32}
trainer: {batch_size: 2, steps: 1000000, log_every: 1, precision: fp32, save: {every: 0, keep: 0}}
run: {folder: out}
R

fail() { echo "$1"; tail -20 log; exit 1; }
start() {  # what follows "hone train r.yaml"; a shell ignores SIGINT for what it puts into the background
  env --default-signal=INT,HUP hone train r.yaml "$@" >log 2>&1 &
  child=$!
}
wait_for() {  # a command that succeeds once it is time
  for _ in $(seq 600); do
    if "$@" 2>/dev/null; then return; fi
    kill -0 "$child" 2>/dev/null || fail "the run ended by itself"
    sleep 0.1
  done
  fail "waited in vain for: $*"
}
