#!/usr/bin/env bash
# A disk that is too small, for real: a tmpfs, and a limit on the size of files. The last whole checkpoint stays, the
# message says which file, which cause and what was kept, and the run goes on when there is room again.
set -euo pipefail
if [ "${1:-}" != inside ]; then
  # As root of a user namespace where we are not root: to mount needs no more.
  if [ "$(id -u)" = 0 ]; then
    unshare -m true 2>/dev/null && exec unshare -m bash "$0" inside
  else
    unshare -rm true 2>/dev/null && exec unshare -rm bash "$0" inside
  fi
  echo "skipped: mounting a tmpfs is not allowed here"
  exit 77
fi

folder=$(mktemp -d)
trap 'umount "$folder/disk" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
mkdir disk
mount -t tmpfs -o size=700k tmpfs disk || { echo "skipped: no tmpfs"; exit 77; }
for i in $(seq 20); do echo "{\"text\": \"a text of about thirty letters $i\"}"; done >d.jsonl
cat >r.yaml <<R
model: {type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2}
tokenizer: bytes
data: {train: d.jsonl, max_length: 32, cache: none}
trainer: {batch_size: 2, steps: 6, precision: fp32, save: {every: 2, keep: 3}}
run: {folder: disk/out}
R

fail() { echo "$1"; cat log; exit 1; }
says() { grep -q -- "$1" log || fail "not said: $1"; }
run() {  # expected exit status, then what follows "hone train r.yaml"
  local expected=$1 status=0
  hone train r.yaml "${@:2}" >log 2>&1 || status=$?
  [ $status = "$expected" ] || fail "hone train r.yaml ${*:2}: exit $status, expected $expected"
}

# It says beforehand that it will not fit.
run 5
says 'disk/out: .* free, expected at least .* for 3 checkpoints of'
[ ! -e disk/out ] || fail "a run that was refused leaves its folder behind"
run 5 --trainer.save.keep=0 --trainer.save.every=1
says 'disk/out: .* free, expected at least .* for 6 checkpoints of'

# Only one checkpoint fits: the others fail, training goes on, the last failure is the run's.
run 5 --no-space-check
says 'checkpoint of step 4 failed: .*\.safetensors: cannot write: No space left on device'
says 'needs .*, free .*; kept step 2; training continues'
says 'while saving the last checkpoint; kept step 2'
[ "$(ls -A disk/out/checkpoints)" = step-00000002 ]
hone inspect checkpoint disk/out/checkpoints/step-00000002 --full >log || fail "the last checkpoint is not whole"

# Not even run.json can be written.
head -c 700k /dev/zero >disk/fill 2>/dev/null || true
run 5 --no-space-check
says 'disk/out/.*: cannot write: No space left on device'
hone inspect checkpoint disk/out/checkpoints/step-00000002 --full >log || fail "the last checkpoint is not whole"

# With room again, it goes on from there.
rm disk/fill
mount -o remount,size=8m disk
run 0
says 'resuming at step 2 of 6 from step-00000002'

# On a disk that has room for one more checkpoint, it goes on: older ones make room.
bytes=$(du -sb disk/out/checkpoints/step-00000006 | cut -f1)
[ "$(ls -A disk/out/checkpoints | wc -l)" = 3 ] || fail "expected three checkpoints"
left=$(df --output=avail -B1 disk | tail -1)
head -c $((left - bytes * 3 / 2)) /dev/zero >disk/fill
run 0 --trainer.steps=12
says 'done: step 12 of 12'
rm disk/fill
head -c $(($(df --output=avail -B1 disk | tail -1) - bytes / 2)) /dev/zero >disk/fill
run 5 --trainer.steps=14
says 'disk/out: .* free, expected at least .* for 1 checkpoint of'
run 5 --new
says 'disk/out: the run that was there is there again'
[ "$(ls disk)" = $'fill\nout' ] || fail "a new run that was refused leaves $(ls disk)"
hone inspect checkpoint disk/out/checkpoints/step-00000012 --full >log || fail "the old run's checkpoint is not there"
rm disk/fill

# A limit on the size of a file ends the save, not the process.
mkdir limited
(ulimit -f 100 && run 5 --run.folder=limited/out --no-space-check) || exit 1
says 'cannot write: File too large'
says 'no checkpoint'

# A disk that is read-only.
mount -o remount,ro disk
run 5 --run.folder=disk/new
says 'disk/new: cannot be written: Read-only file system'
