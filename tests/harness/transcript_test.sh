#!/usr/bin/env bash
# Tests the transcript runner itself: it accepts what matches and, above all, refuses what does not.
# Usage: transcript_test.sh PATH-OF-TRANSCRIPT
set -u
runner=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

expect() {  # exit status, then the transcript as text
  printf '%b' "$2" >"$folder/case.test"
  HONE_TEST_DATA='' "$runner" "$folder/case.test" >"$folder/out" 2>&1
  local status=$?
  if [ "$status" != "$1" ]; then
    printf 'expected exit %s, got %s:\n%b\n' "$1" "$status" "$2"
    cat "$folder/out"
    failures=$((failures + 1))
  fi
}

expect 0 '$ echo hello\nhello\n'
expect 1 '$ echo hello\nhallo\n'
expect 1 '$ echo hello\n'
expect 1 '$ true\nhello\n'
expect 0 '$ echo a b c\na … c\n'
expect 1 '$ echo a b d\na … c\n'
expect 0 '$ seq 5\n1\n…\n5\n'
expect 1 '$ seq 5\n1\n…\n6\n'
expect 1 '$ seq 5\n…\n4\n'
expect 0 '$ exit 3\nexit 3\n'
expect 1 '$ exit 3\n'
expect 1 '$ true\nexit 3\n'
expect 0 '$ cat > x <<E\n> in file\n> E\n$ cat x\nin file\n'
expect 0 '$ echo error >&2\nerror\n'
expect 0 '# comment\n$ echo 1\n# comment\n1\n\n$ echo 2\n2\n'
expect 77 'needs data\n$ false\n'
expect 1 '# nothing to run\n'
exit $((failures > 0))
