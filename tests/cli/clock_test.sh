#!/usr/bin/env bash
# A wall clock that jumps by a day to and fro with every look at it: saves, limits, order and bits are those of a run
# whose clock goes right, also after kill -9 and a restart with the clock a day back.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >clock.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long looks;
static time_t jump(void) {
  const char* days = getenv("CLOCK_DAYS");
  return 86400 * (days ? atoi(days) : __sync_fetch_and_add(&looks, 1) % 2 ? 1 : -1);
}
int clock_gettime(clockid_t id, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(id, now);
  if (id == CLOCK_REALTIME) now->tv_sec += jump();
  return result;
}
int gettimeofday(struct timeval* now, void* zone) {
  struct timespec time;
  (void)zone;
  const int result = clock_gettime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec, now->tv_usec = time.tv_nsec / 1000;
  return result;
}
time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
C
"${CC:-cc}" -shared -fPIC -o clock.so clock.c -ldl 2>log || { echo "skipped: no C compiler"; exit 77; }
jumping() { LD_PRELOAD=$PWD/clock.so "$@"; }
if [ "$(jumping date -u +%j)" = "$(date -u +%j)" ]; then
  echo "skipped: preloading does nothing"
  exit 77
fi

for i in $(seq 50); do echo "{\"text\": \"a text of about thirty letters $i\"}"; done >d.jsonl
cat >r.yaml <<R
model: {type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2}
tokenizer: bytes
data: {train: d.jsonl, eval: {held_out: 0.2}, max_length: 32}
trainer: {batch_size: 2, steps: 120, log_every: 5, eval_every: 20, precision: fp32, time_limit: 12h,
          save: {every: 30, every_minutes: 600, keep: 0}}
run: {folder: straight}
R
fail() { echo "$1"; cat log; exit 1; }
same() {  # the two runs have the same checkpoints, with the same bytes of weights and optimizer
  diff <(ls -A "straight/checkpoints") <(ls -A "$1/checkpoints") >log || fail "$1: other checkpoints"
  for file in model.safetensors state/optimizer-00000-of-00001.safetensors; do
    cmp "straight/checkpoints/step-00000120/$file" "$1/checkpoints/step-00000120/$file" >log || fail "$1: other bytes"
  done
  [ "$(readlink straight/latest)" = "$(readlink "$1/latest")" ] || fail "$1: another latest"
}

hone train r.yaml >log 2>&1 || fail "exit $?"
jumping hone train r.yaml --run.folder=jumped >log 2>&1 || fail "exit $?"
same jumped

# Killed once there is a checkpoint; the clock is a day ahead before and a day back after.
env CLOCK_DAYS=1 LD_PRELOAD="$PWD/clock.so" hone train r.yaml --run.folder=back >log 2>&1 &
child=$!
for _ in $(seq 600); do
  if [ -e back/checkpoints/step-00000030 ] || ! kill -0 $child 2>/dev/null; then break; fi
  sleep 0.02
done
kill -9 $child 2>/dev/null || true
status=0
wait $child 2>/dev/null || status=$?
[ $status = 137 ] || fail "exit $status, expected a run that was killed"
CLOCK_DAYS=-1 jumping hone train r.yaml --run.folder=back >log 2>&1 || fail "exit $?"
same back
CLOCK_DAYS=-1 jumping hone train r.yaml --run.folder=back --trainer.steps=130 >log 2>&1 || fail "exit $?"
grep -q 'resuming at step 120 of 130 from step-00000120' log || fail "not resumed from the newest"
[ "$(readlink back/latest)" = checkpoints/step-00000130 ] || fail "latest is $(readlink back/latest)"
