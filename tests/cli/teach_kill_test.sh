#!/usr/bin/env bash
# hone teach, killed at many points and started again each time: in the end the same bytes as without a kill. What was
# begun otherwise is refused with what differs, and one process writes at a time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export OMP_NUM_THREADS=1
hone init m --model.type=llama --model.hidden_size=128 --model.intermediate_size=256 --model.num_hidden_layers=4 \
  --model.num_attention_heads=4 --model.max_position_embeddings=64 --tokenizer bytes --quiet
hone init other --model.type=llama --model.hidden_size=128 --model.intermediate_size=256 --model.num_hidden_layers=4 \
  --model.num_attention_heads=4 --model.max_position_embeddings=64 --tokenizer bytes --seed 5 --quiet
# Lengths that differ, so that a batch of other records would round otherwise; every 50th has nothing to learn.
for i in $(seq 1500); do
  if [ $((i % 50)) = 0 ]; then echo '{"prompt": "a", "completion": ""}'
  else printf '{"text": "%.*s"}\n' $((i * 7 % 40 + 3)) "$i letters that are counted up to the end of the line"; fi
done >d.jsonl
fail() { echo "$1"; cat log; exit 1; }
says() { grep -q -- "$1" log || fail "not said: $1"; }
asked=(hone teach m --data d.jsonl --top-k 8 --batch-size 2 --no-append-eos --out)
teach() { "${asked[@]}" "$1"; }  # beside other work the program itself is started: the signals are for it
rows() { sed -n 's/^ *"rows": \([0-9]*\),*$/\1/p' .resume-said.jsonl 2>/dev/null || true; }
# until ROWS: until so many are noted; the program runs as $pid.
until_noted() {
  for _ in $(seq 3000); do
    local noted
    noted=$(rows)
    if [ -n "$noted" ] && [ "$noted" -gt "$1" ]; then return; fi
    kill -0 $pid 2>/dev/null || return 0
    sleep 0.005
  done
  fail "no note came"
}

teach straight.jsonl >log 2>&1 || fail "the straight run failed"
[ "$(wc -l <straight.jsonl)" = 1470 ] || fail "$(wc -l <straight.jsonl) rows, expected 1470"
[ "$(ls -A | tr '\n' ' ')" = "d.jsonl log m other straight.jsonl " ] || fail "left behind: $(ls -A)"

resumed=0
for at in 0 100 200 400 700 1000 1200; do
  "${asked[@]}" said.jsonl >log 2>&1 & pid=$!
  until_noted $at
  kill -9 $pid 2>/dev/null || true
  wait $pid 2>/dev/null || true
  [ ! -e said.jsonl ] || break
  if grep -q 'said.jsonl: going on after' log; then resumed=$((resumed + 1)); fi
  # What a kill, or a machine without power, may leave behind what was noted.
  case $at in
    100) printf '{"input_ids":[1,2' >>.new-said.jsonl ;;
    400) head -c 5000 /dev/zero >>.new-said.jsonl ;;
  esac
done
[ $resumed -ge 2 ] || fail "$resumed starts went on: the test tested nothing"
if [ ! -e said.jsonl ]; then teach said.jsonl >log 2>&1 || fail "the last start failed"; fi
cmp straight.jsonl said.jsonl
[ -z "$(ls -A | grep -E '^\.')" ] || fail "left behind: $(ls -A)"
rm said.jsonl

# SIGTERM and SIGINT: it says how it goes on.
for signal in TERM INT; do
  noted=$(rows)
  env --default-signal=INT "${asked[@]}" said.jsonl >log 2>&1 & pid=$!  # which is ignored in what bash starts beside
  until_noted "${noted:-0}"
  kill -$signal $pid
  code=0; wait $pid || code=$?
  [ $code = 75 ] || fail "SIG$signal: exit $code, expected 75"
  says "stopped by SIG$signal while asking the teacher"
  says 'hint: the same command goes on after [0-9]* rows$'
done
# Another process is not let in.
"${asked[@]}" said.jsonl >log 2>&1 & pid=$!
sleep 0.3
code=0; teach said.jsonl >log2 2>&1 || code=$?
if kill -0 $pid 2>/dev/null; then
  if [ $code != 8 ] || ! grep -q 'said.jsonl: another process is writing it' log2; then
    cat log2; fail "exit $code, expected 8"
  fi
fi
kill -9 $pid 2>/dev/null || true; wait $pid 2>/dev/null || true
[ -e .new-said.jsonl ] || fail "what was begun is gone"
noted=$(rows)

# Begun otherwise: what differs, and what to do. Nothing that is there is lost.
refused() {
  local code=0
  hone teach "$@" --out said.jsonl >log 2>&1 || code=$?
  [ $code = 4 ] || fail "$*: exit $code, expected 4"
  says 'hint: .* or remove .*/.new-said.jsonl to begin anew'
  [ "$(rows)" = "$noted" ] || fail "the note has changed"
}
refused m --data d.jsonl --top-k 4 --batch-size 2 --no-append-eos
says "said.jsonl: was begun otherwise, and has $noted rows: --top-k: was 8, is 4$"
refused other --data d.jsonl --top-k 8 --batch-size 2 --no-append-eos
says 'rows: model: was [0-9a-f]*, is [0-9a-f]*$'
refused m --data d.jsonl --top-k 8 --batch-size 3 --temperature 2 --loss all
says '--append-eos: was false, is true; --batch-size: was 2, is 3; --loss: was not given, is "all"; --temperature: was'
sed '3s/letters/Letters/' d.jsonl >changed.jsonl
refused m --data changed.jsonl --top-k 8 --batch-size 2 --no-append-eos
says "said.jsonl: what it has, $noted rows, is not of the first records any longer"
head -20 d.jsonl >short.jsonl
refused m --data short.jsonl --top-k 8 --batch-size 2 --no-append-eos
says 'is not of the first records any longer'
# A record that cannot be read ends it, and once it is mended the same command goes on.
{ cat d.jsonl; echo '{"text": 7}'; } >mended.jsonl
code=0; hone teach m --data mended.jsonl --top-k 8 --batch-size 2 --no-append-eos --out said.jsonl >log 2>&1 || code=$?
[ $code = 4 ] || fail "exit $code, expected 4"
says 'said.jsonl: the same command goes on after'
[ "$(rows)" -gt "$noted" ] || fail "nothing came to it"
teach said.jsonl >log 2>&1 || fail "it does not go on"
says 'said.jsonl: going on after'
cmp straight.jsonl said.jsonl

# A note of a file that was finished, and a file that is no note.
mv said.jsonl first.jsonl
printf '{"rows": 2, "bytes": 10, "records": "1", "facts": {}}' >.resume-said.jsonl
teach said.jsonl >log 2>&1 || fail "it does not begin anew"
cmp straight.jsonl said.jsonl
rm said.jsonl
echo mine >.resume-said.jsonl
code=0; teach said.jsonl >log 2>&1 || code=$?
[ $code = 4 ] || fail "exit $code, expected 4"
says '/.resume-said.jsonl: is no note of how far said.jsonl is'
[ "$(ls -A | grep -E '^\.')" = .resume-said.jsonl ] || fail "left behind: $(ls -A)"
rm .resume-said.jsonl
mv first.jsonl said.jsonl

# A disk that is full: what fits stays.
rm said.jsonl
code=0; (ulimit -f 300; teach said.jsonl) >log 2>&1 || code=$?
[ $code = 5 ] || fail "a limit of the file's size: exit $code, expected 5"
says '.new-said.jsonl: cannot write: File too large'
says 'the same command goes on after'
teach said.jsonl >log 2>&1 || fail "it does not go on when there is room"
cmp straight.jsonl said.jsonl
# A folder that may not be written in (root may).
if [ "$(id -u)" != 0 ]; then
  mkdir closed; chmod 500 closed
  code=0; teach closed/x.jsonl >log 2>&1 || code=$?
  [ $code = 5 ] || fail "exit $code, expected 5"
  says 'closed: cannot be written: Permission denied'
fi
