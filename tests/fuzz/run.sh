#!/usr/bin/env bash
# Builds the fuzz targets with clang's libFuzzer (with address and undefined-behaviour sanitizers) and runs all of them,
# or those that are named.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<'TEXT'
usage: ./dev test fuzz [--runs N] [--seconds N] [--jobs N] [TARGET ...]

  --runs N      executions of each target; default 1000000
  --seconds N   at most so long for each target; default: no limit (all targets: an hour of one core)
  --jobs N      targets at the same time; default: one for each core
  TARGET        tests/fuzz/TARGET.cc; default: all of them

What a target finds is kept in build/fuzz/failures/TARGET; with its cause mended, it goes into tests/fuzz/TARGET, where
every build's tests replay it. The inputs that reached new code are kept in build/fuzz/corpus/TARGET for the next time.
HONE_CLANG=<clang++>: the compiler, 16 or newer with libFuzzer (libclang-rt); default: the newest that is installed.
TEXT
}

runs=1000000 seconds=0 jobs=$(nproc) targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --runs) runs=$2; shift ;;
    --runs=*) runs=${1#*=} ;;
    --seconds) seconds=$2; shift ;;
    --seconds=*) seconds=${1#*=} ;;
    --jobs) jobs=$2; shift ;;
    --jobs=*) jobs=${1#*=} ;;
    --help | -h) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done

works() {  # a compiler that has libFuzzer and the sanitizers; before clang 16, libstdc++'s ranges do not compile
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }
        static_assert(__clang_major__ >= 16);' |
    "$1" -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2>/dev/null
}
compilers=(clang++-{22,21,20,19,18,17,16} clang++)
if [ -n "${HONE_CLANG:-}" ]; then compilers=("$HONE_CLANG"); fi
for compiler in "${compilers[@]}"; do
  if works "$compiler"; then found=$compiler; break; fi
done
if [ -z "${found:-}" ]; then
  echo "fuzz: needs clang++ 16 or newer with libFuzzer; got ${HONE_CLANG:-none that is installed}" >&2
  echo "  hint: apt-get install clang-19 libclang-rt-19-dev, or HONE_CLANG=<clang++>; without it, the seeds are" >&2
  echo "  replayed by the test fuzz/replay_test of every build" >&2
  exit 1
fi
HONE_CLANG=$found
export HONE_CLANG
[ -e build/fuzz/build.ninja ] || cmake --preset fuzz
cmake --build build/fuzz --target fuzz -j "${HONE_JOBS:-$(nproc)}"

if [ ${#targets[@]} = 0 ]; then
  for program in build/fuzz/targets/*; do targets+=("$(basename "$program")"); done
fi
for target in "${targets[@]}"; do
  if [ ! -x "build/fuzz/targets/$target" ]; then
    echo "fuzz: no target $target; there are: $(ls build/fuzz/targets | tr '\n' ' ')" >&2
    exit 2
  fi
done

longest() {  # of an input, in bytes; two targets decode the ids of each one by one
  case $1 in
    tokenizer_roundtrip | bytes_tokenizer) echo 64 ;;
    *) echo 1024 ;;
  esac
}

fuzz_one() {  # the target's line; fails if the target did
  local target=$1 status=0 executions
  local corpus=build/fuzz/corpus/$target failures=build/fuzz/failures/$target log=build/fuzz/$target.log
  mkdir -p "$corpus" "$failures"
  local options=(-runs="$runs" -max_total_time="$seconds" -max_len="$(longest "$target")" -timeout=10
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$failures/")
  if [ -e "tests/fuzz/$target.dict" ]; then options+=(-dict="tests/fuzz/$target.dict"); fi
  "build/fuzz/targets/$target" "${options[@]}" "$corpus" "tests/fuzz/$target" >"$log" 2>&1 || status=$?
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  if [ $status = 0 ]; then
    echo "fuzz: $target: ${executions:-?} executions, no failure"
  else
    echo "fuzz: $target: FAILED after ${executions:-?} executions (all of it: $log)"
    grep -m3 -E 'ERROR:|terminate called|what\(\)|SUMMARY:|runtime error' "$log" | sed 's/^/  /' || true
  fi
  return $status
}

failed=0 running=0
for target in "${targets[@]}"; do
  if [ $running -ge "$jobs" ]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
  fuzz_one "$target" &
  running=$((running + 1))
done
while [ $running -gt 0 ]; do
  wait -n || failed=1
  running=$((running - 1))
done
exit $failed
