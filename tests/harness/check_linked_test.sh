#!/usr/bin/env bash
# check_linked.sh refuses each kind of search path and library that it should, one at a time, and accepts the others.
set -u
check=$(cd "$(dirname "$0")" && pwd)/check_linked.sh
folder=$(mktemp -d "${TMPDIR:-/tmp}/check linked.XXXXXX")
trap 'rm -rf "$folder"' EXIT
failures=0
echo 'int main() { return 0; }' >"$folder/main.c"
compile() { "${CC:-cc}" -o "$folder/programs/program" "$folder/main.c" "$@" || failures=$((failures + 1)); }

expect() {  # accepted|refused, flags of the check, flags of the linker...
  rm -rf "$folder/programs"
  mkdir "$folder/programs"
  compile "${@:3}"
  local got=accepted
  "$check" $2 "$folder/programs" >"$folder/out" 2>&1 || got=refused
  if [ $got != "$1" ]; then
    echo "linked with: ${*:3}: $got, expected $1"
    cat "$folder/out"
    failures=$((failures + 1))
  fi
}

library() { "${CC:-cc}" -shared -o "$folder/$1" -x c /dev/null -Wl,-soname,"$2"; }
needs=-Wl,--no-as-needed
expect accepted ''
expect accepted '' -Wl,-rpath,/opt/lib
expect accepted '' '-Wl,-rpath,$ORIGIN/../lib:/opt/lib'
expect refused '' -Wl,-rpath,/opt/lib::
expect refused '' -Wl,-rpath,/opt/lib:::/opt/more
expect refused '' -Wl,-rpath,:/opt/lib
expect refused '' -Wl,-rpath,lib
expect refused '' -Wl,--disable-new-dtags,-rpath,/opt/lib:.
expect refused '' '-Wl,-rpath,$ORIGINAL/lib'
for name in libtorch_cuda.so libc10_cuda.so libcudart.so.13 libcublasLt.so.13 libcupti.so.13 libnccl.so.2; do
  library library.so $name
  expect refused '' $needs "$folder/library.so"
  expect accepted --cuda $needs "$folder/library.so"
done
for name in libcurl.so.4 libtorch_cpu.so libnvme.so.1; do
  library library.so $name
  expect accepted '' $needs "$folder/library.so"
done
library library.so some/library.so
expect refused '' $needs "$folder/library.so"
if "$check" "$folder/main.c" >/dev/null; then
  echo "nothing to read: accepted, expected refused"
  failures=$((failures + 1))
fi
exit $((failures > 0))
