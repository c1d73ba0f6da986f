#!/usr/bin/env bash
# A signal while a run waits for a program of the user's that hangs: the wait ends at once, the steps before are saved,
# exit 75, and the same command goes on to the bits of a run that was never stopped. Of one process and of two ranks.
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
cat >reward.sh <<'E2'
read -r first
case "$first" in *'"step":4'*) if [ -e hang ]; then : >>hangs; sleep 1000; fi ;; esac
{ printf '%s\n' "$first"; cat; } | awk '{ print length($0) % 3 }'
E2
# Each line of a turn is answered at once; in step 4 it hangs.
cat >turns.sh <<'E2'
while read -r line; do
  case "$line" in *'"step":4'*) if [ -e hang ]; then : >>hangs; sleep 1000; fi ;; esac
  echo '{"done": true, "reward": '$((${#line} % 3))'}'
done
E2
recipe() {
  cat <<E2
model: {type: llama, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 2, max_position_embeddings: 64}
tokenizer: bytes
data: {train: d.jsonl, max_length: 32}
objective: {type: grpo, num_generations: 2, max_completion_length: 8, $1}
optimizer: {type: adamw, learning_rate: 1e-2}
trainer: {batch_size: 2, accumulate: 2, steps: 6, precision: fp32, log_every: 1, save: {every: 100}}
run: {seed: 1}
E2
}
recipe "rewards: [{type: command, command: 'sh reward.sh', timeout: 2000}]" >command.yaml
recipe "rewards: [environment], environment: {command: 'sh turns.sh', timeout: 2000}" >environment.yaml

check() { # name, what is started
  local name=$1
  shift
  rm -rf out straight hang hangs
  "$@" --run.folder=straight --quiet >log 2>&1 || fail "$name: the run without a stop failed"
  : >hang
  "$@" --run.folder=out >log 2>&1 &
  local child=$! status=0
  for _ in $(seq 600); do
    if [ -e hangs ]; then break; fi
    sleep 0.1
  done
  [ -e hangs ] || fail "$name: nothing hung"
  sleep 0.5
  local begin=$SECONDS
  kill -TERM "$child"
  wait "$child" || status=$?
  [ $status = 75 ] || fail "$name: exit $status, expected 75"
  [ $((SECONDS - begin)) -lt 30 ] || fail "$name: it took $((SECONDS - begin)) s"
  grep -q 'SIGTERM at step 3: saved in' log || fail "$name: step 3 is not told as saved"
  [ -e out/checkpoints/step-00000003/MANIFEST.json ] || fail "$name: step 3 is not saved"
  rm hang
  "$@" --run.folder=out >log 2>&1 || fail "$name: it does not go on"
  grep -q 'resuming at step 3' log || fail "$name: it does not go on from step 3"
  cmp out/checkpoints/step-00000006/model.safetensors straight/checkpoints/step-00000006/model.safetensors ||
    fail "$name: other weights"
}
check 'a reward' hone train command.yaml
check 'an environment' hone train environment.yaml
check 'a reward, two ranks' hone launch -n 2 train command.yaml
check 'an environment, two ranks' hone launch -n 2 train environment.yaml
