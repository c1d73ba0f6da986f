#!/usr/bin/env bash
# hone launch: two processes train one model, and neither outlives the other. What is said is said once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for i in $(seq 60); do echo "{\"text\": \"a text of about thirty letters $i\"}"; done >d.jsonl
cat >r.yaml <<R
model: {type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2}
tokenizer: bytes
data: {train: d.jsonl, eval: {held_out: 0.2}, max_length: 32}
optimizer: {type: adamw, learning_rate: 1e-3}
trainer: {batch_size: 2, accumulate: 4, steps: 30, eval_every: 10, log_every: 1, precision: fp32,
          save: {every: 10, keep: 0}}
run: {folder: out}
R
long=(--trainer.steps=1000000 --trainer.eval_every=0 --trainer.save.every=200 --trainer.save.keep=2)

fail() { echo "$1"; cat log; exit 1; }
says() { grep -q -- "$1" log || fail "not said: $1"; }
says_once() { [ "$(grep -c -- "$1" log)" = 1 ] || fail "not said once: $1"; }
start() {  # what follows "hone launch -n 2"
  env --default-signal=INT hone launch -n 2 "$@" >log 2>&1 &
  child=$!
}
wait_for() {
  for _ in $(seq 600); do
    if "$@" 2>/dev/null; then return; fi
    kill -0 "$child" 2>/dev/null || fail "the run ended by itself"
    sleep 0.1
  done
  fail "waited in vain for: $*"
}
ends_with() {  # exit code, within this many seconds
  local status=0 begin=$SECONDS
  wait "$child" || status=$?
  [ $status = "$1" ] || fail "exit $status, expected $1"
  [ $((SECONDS - begin)) -le "$2" ] || fail "took $((SECONDS - begin)) s to end, expected at most $2"
  for _ in $(seq 20); do pgrep -P "$child" >/dev/null || return 0; sleep 0.1; done
  fail "processes are left"
}
rank() { pgrep -P "$child" | sed -n "$(($1 + 1))p"; }  # the process of a rank
lines() { if [ -e "$1/metrics.jsonl" ]; then wc -l <"$1/metrics.jsonl"; else echo 0; fi; }
trains() { [ "$(lines "$1")" -gt "$2" ]; }
varying='"(step_seconds|tokens_per_second|peak_memory_bytes|eval_seconds)":[^,}]*,?'
comparable() { sed -E "s/$varying//g" "$1/metrics.jsonl"; }

# As one process: the same steps, tokens and checkpoints, said and written once.
hone launch -n 2 train r.yaml >log 2>&1 || fail "exit $?"
says_once '2 ranks by hone launch'
says_once 'done: step 30 of 30'
says_once 'step 30: saved out/checkpoints/step-00000030'
[ "$(lines out)" = 33 ] || fail "$(lines out) lines of metrics"
hone launch -n 2 train r.yaml --run.folder=again --quiet >log 2>&1 || fail "exit $?"
cmp out/checkpoints/step-00000030/model.safetensors again/checkpoints/step-00000030/model.safetensors
diff <(comparable out) <(comparable again)
hone launch -n 2 --json train r.yaml >log 2>err || fail "exit $?"
[ "$(wc -l <log)" = 1 ] || fail "not one line of JSON"
says '"reason":"already_finished"'
hone launch -n 2 --threads 3 train r.yaml --run.folder=threads >log 2>&1 || fail "exit $?"
says_once '^3 threads'

# Shares of the model instead of all of it: the same bits.
same=(--trainer.accumulate=2 --trainer.max_grad_norm=0 --quiet)
hone launch -n 2 train r.yaml "${same[@]}" --run.folder=whole >log 2>&1 || fail "exit $?"
hone launch -n 2 train r.yaml "${same[@]}" --run.folder=shares --parallel.fsdp=-1 >log 2>&1 || fail "exit $?"
for file in model.safetensors state/optimizer-00000-of-00001.safetensors; do
  cmp whole/checkpoints/step-00000030/$file shares/checkpoints/step-00000030/$file
done
diff <(sed 's/"grad_norm":[^,]*,//' <(comparable whole)) <(sed 's/"grad_norm":[^,]*,//' <(comparable shares))

# One error, its exit code, and nothing else.
refused() {  # exit code, text, arguments
  local code=$1 text=$2 status=0
  shift 2
  hone launch -n 2 "$@" >log 2>&1 || status=$?
  [ $status = "$code" ] || fail "exit $status, expected $code: $*"
  says_once "$text"
  says_once '^error: '
}
refused 3 "trainer.accumulate: a step's 3 micro-batches cannot be shared evenly among 2 ranks" train r.yaml \
  --trainer.accumulate=3 --run.folder=none
refused 4 'none.jsonl' train r.yaml --data.train=none.jsonl --run.folder=none
refused 2 '"generate": is not done by several ranks; there are bench, train' generate
refused 2 '"frobnicate": no such command; several ranks do bench, train' frobnicate
[ ! -e none ] || fail "a folder of a run that was refused"

refused 2 '--no-such: no such flag' train r.yaml --no-such
hone launch -n 2 train --help >log 2>&1
says_once '^usage'
hone launch -n 2 bench out/latest --batch-size 4 --length 32 --steps 2 --json >log 2>err || { cat err; fail "exit $?"; }
says '"ranks":2'

# SIGTERM to the launcher, and to one rank alone: all stop after the same step, and go on.
start train r.yaml "${long[@]}" --run.folder=stopped
wait_for trains stopped 3
kill -TERM "$child"
ends_with 75 20
says_once 'SIGTERM at step [0-9]*: saved in'
before=$(lines stopped)
start train r.yaml "${long[@]}" --run.folder=stopped
wait_for trains stopped "$before"
says_once 'stopped: resuming at step'
kill -INT "$(rank 1)"
ends_with 75 20
says_once 'SIGINT at step [0-9]*: saved in'

# To the whole process group, as service managers, timeout and shells do: once is once.
before=$(lines stopped)
setsid env --default-signal=INT hone launch -n 2 train r.yaml "${long[@]}" --run.folder=stopped >log 2>&1 &
child=$!
wait_for trains stopped "$before"
kill -TERM -- "-$child"
ends_with 75 20
says_once 'SIGTERM at step [0-9]*: saved in'

# Before anything has begun, too, the same command starts again.
start train r.yaml "${long[@]}" --run.folder=early
for _ in $(seq 500); do  # until it minds the signal
  [ $((0x$(awk '/^SigCgt/ { print $2 }' "/proc/$child/status") >> 14 & 1)) = 1 ] && break
  sleep 0.02
done
kill -TERM "$child"
ends_with 75 20

# Told twice, in a step that takes its time: they end at once, and nobody is lost.
start train r.yaml "${long[@]}" --run.folder=twice --trainer.accumulate=20000 --trainer.batch_size=8
sleep 4
kill -INT "$child"
sleep 0.5
kill -INT "$child"
ends_with 130 10
! grep '^error' log || fail "an error, though it was asked to end"

# A rank is killed: the other one names it.
start train r.yaml "${long[@]}" --run.folder=killed
wait_for trains killed 3
pid=$(rank 1)
kill -KILL "$pid"
ends_with 7 5
says "error: rank 1 (process $pid) was killed by signal 9"
before=$(lines killed)
start train r.yaml "${long[@]}" --run.folder=killed
wait_for trains killed "$before"
pid=$(rank 0)
kill -KILL "$pid"
ends_with 7 5
says "error: rank 0 (process $pid) was killed by signal 9"

# One of two that compute micro-batches together; what they saved goes on in one process.
together=("${long[@]}" --trainer.save.every=10 --run.folder=together)
start train r.yaml "${together[@]}" --parallel.context=2
wait_for trains together 25
pid=$(rank 1)
kill -KILL "$pid"
ends_with 7 5
says "error: rank 1 (process $pid) was killed by signal 9"
saved=$(ls together/checkpoints | sed -n 's/^step-0*//p' | sort -n | tail -1)
hone train r.yaml "${together[@]}" --trainer.steps=$((saved + 5)) --override trainer >log 2>&1 || fail "exit $?"
says 'together: resuming at step'

# One that stands still is missed.
start --timeout 2 train r.yaml "${long[@]}" --run.folder=still
wait_for trains still 300
stopped=$(rank 1)
kill -STOP "$stopped"
ends_with 7 5
says 'error: rank 1 has not been heard of for 2 s; it was last at step [0-9]*'

# The launcher is killed.
start train r.yaml "${long[@]}" --run.folder=orphans
wait_for trains orphans 3
ranks=$(pgrep -P "$child")
kill -KILL "$child"
wait "$child" || true
for _ in $(seq 50); do
  left=
  for pid in $ranks; do if kill -0 "$pid" 2>/dev/null; then left=$pid; fi; done
  [ -n "$left" ] || break
  sleep 0.1
done
[ -z "$left" ] || fail "rank $left is left"
says 'error: the launcher is gone'

# Two launches on one folder.
start train r.yaml "${long[@]}" --run.folder=held
wait_for trains held 3
status=0
hone launch -n 2 train r.yaml "${long[@]}" --run.folder=held >second 2>&1 || status=$?
[ $status = 8 ] || { cat second; fail "exit $status of the second, expected 8"; }
[ "$(grep -c 'locked by host' second)" = 1 ] || { cat second; fail "not said once"; }
kill -TERM "$child"
ends_with 75 20

# A disk that is full for one rank: checkpoints fail and say so, training goes on; the last one is an error.
by_hand() {  # rank, port, arguments
  env RANK="$1" WORLD_SIZE=2 LOCAL_RANK="$1" LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$2" \
    OMP_NUM_THREADS=1 hone train r.yaml "${@:3}"
}
by_hand 0 29612 --run.folder=full >log 2>&1 &
child=$!
(ulimit -f 40 && by_hand 1 29612 --run.folder=full) >log.1 2>&1 || true
ends_with 5 20
says_once 'checkpoint of step 10 failed: rank 1: .*File too large'
says_once 'error: rank 1: .*File too large'
says_once 'while saving the last checkpoint; kept no checkpoint'
[ ! -s log.1 ] || { cat log.1; fail "rank 1 says it as well"; }
[ "$(ls full/checkpoints)" = "" ] || fail "left behind: $(ls -a full/checkpoints)"

# Environments of other launchers.
for rank in 0 1; do by_hand $rank 29611 --run.folder=torchrun >log.$rank 2>&1 & done
wait
cat log.0 log.1 >log
says_once '2 ranks by torchrun'
says_once 'done: step 30 of 30'
cmp out/checkpoints/step-00000030/model.safetensors torchrun/checkpoints/step-00000030/model.safetensors

# A path that leads a rank to another file than rank 0, as on machines that share no file system.
mkdir other
sed 's/thirty/forty/' d.jsonl >other/d.jsonl
by_hand 0 29618 --run.folder="$folder/differ" >log 2>&1 &
child=$!
cp r.yaml other/r.yaml
(cd other && by_hand 1 29618 --run.folder="$folder/differ") >log.1 2>&1 || true
ends_with 4 20
says_once '^error: data.eval.held_out, data.train: not the same on rank 1 as on rank 0'
[ ! -s log.1 ] || { cat log.1; fail "rank 1 says it as well"; }

# A program that ignores the ends of its children hands that on.
env --ignore-signal=CHLD timeout 100 hone launch -n 2 train r.yaml --run.folder=again >log 2>&1 || fail "exit $?"
says_once 'finished at step 30'

# Ranks that are not of one job, and a machine that nobody knows.
RANK=1 WORLD_SIZE=3 MASTER_PORT=29615 HONE_RANK_TIMEOUT=4 hone train r.yaml --run.folder=apart >log.1 2>&1 &
! RANK=0 WORLD_SIZE=2 MASTER_PORT=29615 HONE_RANK_TIMEOUT=4 hone train r.yaml --run.folder=apart >log 2>&1
wait
says_once 'rank 1 is one of 3 ranks, and rank 0 one of 2'
status=0
RANK=0 WORLD_SIZE=2 MASTER_ADDR=no.such.invalid HONE_RANK_TIMEOUT=1 timeout 60 \
  hone train r.yaml --run.folder=apart >log 2>&1 || status=$?
[ $status = 7 ] || fail "exit $status, expected 7"
says_once 'MASTER_ADDR: "no.such.invalid": '

# A rank that is given twice where another one is missing: one error that names it, and all end.
for log in log.0 log.1 log.1b; do
  rank=${log#log.}
  RANK=${rank%b} WORLD_SIZE=3 MASTER_PORT=29616 hone train r.yaml --trainer.accumulate=6 --run.folder=apart >$log 2>&1 &
done
wait
cat log.0 log.1 log.1b >log
says_once '^error: RANK: got 1, which process [0-9]* of .* has, too'
says_once '^error'

# A place where nobody is.
status=0
RANK=1 WORLD_SIZE=2 MASTER_PORT=29617 HONE_RANK_TIMEOUT=1 hone train r.yaml --run.folder=apart >log 2>&1 || status=$?
[ $status = 7 ] || fail "exit $status, expected 7"
says_once '^error: MASTER_ADDR: "127.0.0.1": rank 0 has not been found there, at port 29617 (MASTER_PORT), within 5 s'
says_once '^error'

# One that comes alone says whom it waits for.
by_hand 0 29613 --run.folder=alone >log 2>&1 &
sleep 8
kill -KILL $! && pkill -KILL -f run.folder=alone || true
wait
says_once 'waiting for ranks 1 of 2 to come to 127.0.0.1:29613, 300 s at most'
echo "ranks end together"
