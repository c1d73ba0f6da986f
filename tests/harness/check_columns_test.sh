#!/usr/bin/env bash
# tools/check-columns refuses lines of more than 120 characters wherever code lies, and accepts what it says is free.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0
allowed=

expect() {  # accepted|refused, file, content
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/{src,include,tests,examples,bench,tools} "$tree/$(dirname "$2")"
  printf '%s\n' "$allowed" >"$tree/tools/check-columns.allow"
  printf '%s\n' "$3" >"$tree/$2"
  local got=accepted
  "$root/tools/check-columns" "$tree" >"$tree/out" 2>&1 || got=refused
  if [ $got != "$1" ]; then
    echo "$2: $got, expected $1"
    cat "$tree/out"
    failures=$((failures + 1))
  fi
}

columns() { printf "%0$1d" 0; }
expect accepted src/io/a.cc "// $(columns 117)"
expect refused src/io/a.cc "// $(columns 118)"
for file in include/hone/a.h tests/io/a_test.cc examples/a.cc bench/a.py tools/golden/a.py tests/cli/a_test.sh; do
  expect refused "$file" "$(columns 121)"
done
for file in tools/check-a dev; do
  expect refused $file "#!/bin/bash
$(columns 121)"
done
expect accepted tests/cli/a.test "$(columns 121)"
expect accepted src/io/a.cc "// $(columns 116)ü"
expect accepted src/io/a.cc "// https://example.org/$(columns 121)"
expect accepted src/io/a.cc "const char* text = R\"A(
$(columns 121)
)A\";"
expect refused src/io/a.cc "const char* text = R\"A(
)A\";
$(columns 121)"
expect accepted tests/cli/a_test.sh "cat <<END
$(columns 121)
END"
expect refused tests/cli/a_test.sh "cat <<END
END
$(columns 121)"
allowed="src/io/a.cc 1"
expect accepted src/io/a.cc "$(columns 121)"
expect refused src/io/a.cc "$(columns 121)
$(columns 122)"
exit $((failures > 0))
