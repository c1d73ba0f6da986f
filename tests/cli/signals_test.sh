#!/usr/bin/env bash
# SIGINT, SIGTERM and SIGHUP: the step is finished and saved, exit 75, the same command goes on; a second one ends it at once.
set -euo pipefail
. "$(dirname "$0")/../harness/long_run.sh"
says() { grep -q -- "$1" log || fail "not said: $1"; }
ends_with() {
  local status=0
  wait "$child" || status=$?
  [ $status = "$1" ] || fail "exit $status, expected $1"
}

lines() { if [ -e out/metrics.jsonl ]; then wc -l <out/metrics.jsonl; else echo 0; fi; }
trains() { [ "$(lines)" -gt "$1" ]; }
for signal in INT TERM HUP; do
  before=$(lines)
  start
  wait_for trains "$before"
  kill -$signal "$child"
  if [ $signal = HUP ]; then kill -HUP "$child"; fi  # the shell passes on what the terminal has sent already
  ends_with 75
  says 'stopping after this step, and saving; once more: at once'
  says "SIG$signal at step [0-9]*: saved in .*; the same command again goes on"
  [ "$(ls -A out/checkpoints | wc -l)" = 1 ] || [ $signal != INT ] || fail "more than one checkpoint"
done
says 'out: resuming at step [0-9]* of 1000000 from step-'
if grep -q "$(printf '\r')\|$(printf '\033')" log; then fail "control characters in a file"; fi

# nohup: it goes on.
before=$(lines)
env --default-signal=INT nohup hone train r.yaml >log 2>&1 &
child=$!
wait_for trains "$before"
before=$(lines)
kill -HUP "$child"
wait_for trains "$((before + 2))"
kill -INT "$child"
ends_with 75
says 'SIGINT at step'

# SIGUSR1 saves and goes on; two signals end it at once, and what is committed stays.
count() { [ "$(ls out/checkpoints | wc -l)" -gt "$1" ]; }
before=$(ls out/checkpoints | wc -l)
trained=$(lines)
start
wait_for trains "$((trained + 1))"
kill -USR1 "$child"
wait_for count "$before"
kill -STOP "$child"  # so that both signals come within one step
kill -INT "$child"
kill -TERM "$child"
kill -CONT "$child"
status=0
wait "$child" || status=$?
[ $status = 130 ] || [ $status = 143 ] || fail "two signals: exit $status, expected 130 or 143"
for checkpoint in out/checkpoints/step-*; do
  hone inspect checkpoint "$checkpoint" --full >log || fail "$checkpoint is not whole"
done

# While data is read there is nothing to save: it stops there, and leaves no run behind.
line='{"text": "a text of which there are very many, so that reading them takes its time"}'
awk -v line="${line//\"/\\\"}" 'BEGIN { for (i = 0; i < 1500000; ++i) print line }' >big.jsonl
start --data.train=big.jsonl --run.folder=none
reads() { ls -l "/proc/$child/fd" | grep -q big.jsonl && [ "$(ls "/proc/$child/task" | wc -l)" -gt 2 ]; }
wait_for reads
kill -INT "$child"
ends_with 75
says 'stopped by SIGINT while reading big.jsonl; the same command starts again'
[ ! -e none/config.yaml ] || fail "a run is left behind"

# Generating has nothing to save either, and says what ended it in the form that was asked for.
hone init m --model.type=llama --model.hidden_size=32 --model.intermediate_size=32 --model.num_hidden_layers=1 \
  --model.num_attention_heads=1 --tokenizer bytes --quiet >log
hone generate m --prompt a --ignore-eos --max-new-tokens 100000000 --json >answers 2>log &
child=$!
catches() {  # signals of this mask; before it is hone it is a shell, which has handlers of its own
  [[ $(readlink "/proc/$child/exe") = */hone ]] &&
    (((0x$(awk '$1 == "SigCgt:" { print $2 }' "/proc/$child/status") & $1) != 0))
}
# SIGUSR1: only what does not end at once looks at it. A second of computing is more than a start takes.
generates() { catches 0x200 && (($(awk '{ print $14 }' "/proc/$child/stat") > 100)); }
wait_for generates
kill -TERM "$child"
ends_with 75
says '^{"error":{"kind":"stopped","exit_code":75,"message":"stopped by SIGTERM while generating"}}$'
[ ! -s answers ] || fail "half an answer"

# Answers are printed as they are finished, and stay.
for i in $(seq 400); do echo "prompt $i"; done >many.txt
hone generate m --prompts many.txt --batch-size 2 --ignore-eos --max-new-tokens 4000 --json >answers 2>log &
child=$!
answered() { [ "$(wc -l <answers)" -gt 2 ]; }
wait_for answered
kill -TERM "$child"
ends_with 75
says '"message":"stopped by SIGTERM while generating"'
[ "$(wc -l <answers)" -lt 400 ] || fail "all of them"
for i in $(seq "$(wc -l <answers)"); do
  whole="^{\"prompt\":\"prompt $i\",.*\"finish_reason\":\"length\"}$"
  sed -n "${i}p" answers | grep -q "$whole" || fail "answer $i is not whole"
done

# Work that leaves nothing behind ends at once, and says so, whatever it does: here it reads.
says_it_stopped() {  # exit code 75 while big.jsonl is read by: hone --json ARGUMENTS
  env --default-signal=INT hone --json "$@" >answers 2>log &
  child=$!
  wait_for opened
  kill -INT "$child"
  ends_with 75
  says '^{"error":{"kind":"stopped","exit_code":75,"message":"stopped by SIGINT[^"]*"}}$'
  [ ! -s answers ] || fail "printed by $1: $(head -c 200 answers)"
}
opened() { ls -l "/proc/$child/fd" | grep -q big.jsonl; }
says_it_stopped eval m --data big.jsonl
says_it_stopped inspect data big.jsonl
says_it_stopped tokenizer train big.jsonl --out none
says_it_stopped plan r.yaml --data.train=big.jsonl --run.folder=none
[ ! -e none ] || fail "something is left behind"
hone tokenizer train big.jsonl --out none >answers 2>log &
child=$!
wait_for opened
kill -TERM "$child"
ends_with 75
grep -qx 'stopped by SIGTERM' log || fail "not said"

# A folder that is being made is not left behind half made.
hone init big --json --precision bf16 --model.type=llama --model.hidden_size=1024 --model.intermediate_size=4096 \
  --model.num_hidden_layers=8 --model.num_attention_heads=8 --tokenizer bytes >answers 2>log &
child=$!
until compgen -G '.tmp-big-*/model*' >/dev/null; do kill -0 "$child" || fail "it was too fast"; done
kill -TERM "$child"
ends_with 75
says '"message":"stopped by SIGTERM while writing big"'
[ -z "$(compgen -G '.tmp-*')" ] || fail "left behind: $(ls -A)"

# A launcher hears of it before libraries are ready, where the system lets it.
hears() { catches 0x4000; }  # SIGTERM
for wait in 0 0.02 0.05 0.1 0.2; do
  hone launch -n 2 train r.yaml --run.folder=none >log 2>&1 &
  child=$!
  for _ in $(seq 1000); do if hears 2>/dev/null; then break; fi; done
  hears || fail "it does not hear"
  sleep $wait
  kill -TERM "$child"
  ends_with 75
done

# A wish to save before there is anything to save ends nobody.
for wait in 0 0.02 0.05 0.1 0.2; do
  rm -rf early
  hone train r.yaml --run.folder=early --trainer.steps=2 --trainer.save.every=2 >log 2>&1 &
  child=$!
  for _ in $(seq 1000); do if hears 2>/dev/null; then break; fi; done
  hears || fail "it does not hear"
  sleep $wait
  kill -USR1 "$child" 2>/dev/null || true  # it may be done by then
  ends_with 0
  says 'done: step 2 of 2'
done
