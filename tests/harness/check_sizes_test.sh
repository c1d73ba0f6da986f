#!/usr/bin/env bash
# tools/check-sizes refuses a file, a model, a header and a function that are too long, and accepts those that are not.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

expect() {  # accepted|refused, file, content
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/{src,include,tests,tools} "$tree/$(dirname "$2")"
  echo "$3" >"$tree/$2"
  local got=accepted
  "$root/tools/check-sizes" "$tree" >"$tree/out" 2>&1 || got=refused
  if [ $got != "$1" ]; then
    echo "$2: $got, expected $1"
    cat "$tree/out"
    failures=$((failures + 1))
  fi
}

lines() { for ((i = 0; i < $1; ++i)); do echo "  f();"; done; }
expect accepted src/io/a.cc "$(lines 600)"
expect refused src/io/a.cc "$(lines 601)"
expect accepted src/models/a.cc "$(lines 400)"
expect refused src/models/a.cc "$(lines 401)"
expect refused include/hone/a.h "$(lines 301)"
expect accepted src/io/a.cc "int f(int x) {
$(lines 68)
}"
expect refused src/io/a.cc "int f(int x) {
$(lines 69)
}"
expect refused src/io/a.cc "void Type::f() const {
$(lines 69)
}"
expect accepted src/ops/cpu/a.cc "int f(int x) {
$(lines 100)
}"
exit $((failures > 0))
