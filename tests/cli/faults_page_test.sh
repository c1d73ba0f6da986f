#!/usr/bin/env bash
# docs/faults.md has a row for each fault, and each test that a row names is there. First this tree's page, then that
# pages with one mistake are refused.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
  printf 'W%s\n' {1..19}
  printf 'R%s\n' {1..19}
  printf 'P%s\n' {1..6} 10 11 13
  printf 'N%s\n' 1 2 3 5 6
} | sort >"$work/wanted"

problems() {  # page
  awk -F '|' -v names="$work/rows" -v proofs="$work/proofs" '
    function trimmed(text) { gsub(/^ +| +$/, "", text); return text }
    BEGIN { printf "" >names; printf "" >proofs }
    !/^\|/ || /^\|[-| ]*\|$/ || $(NF - 1) ~ /^ *(test|proof) *$/ { next }
    NF != 6 { printf "%s:%d: a row has four columns; got %d\n", FILENAME, FNR, NF - 2; next }
    {
      if (trimmed($2) ~ /^[A-Z][0-9]+$/) print trimmed($2) >names
      count = split(trimmed($5), parts, /; */)
      for (i = 1; i <= count; ++i)
        if (parts[i] ~ /^`tests\/[^ `]+`( [A-Za-z0-9_]+\.[A-Za-z0-9_]+)?$/) {
          gsub(/`/, "", parts[i])
          print FNR, parts[i] >proofs
        } else
          printf "%s:%d: got \"%s\", expected `tests/FILE` or `tests/FILE` Suite.Name\n", FILENAME, FNR, parts[i]
    }' "$1"
  sort "$work/rows" | uniq -d | sed "s|^|$1: more than one row: |"
  sort -u "$work/rows" | comm -13 - "$work/wanted" | sed "s|^|$1: no row: |"
  while read -r line file test; do
    if [ ! -f "$file" ]; then
      echo "$1:$line: no such test: $file"
    elif [ -n "$test" ] && ! grep -qE "^TEST(_F|_P)?\(${test%%.*}, *${test#*.}\)" "$file"; then
      echo "$1:$line: $file has no test $test"
    fi
  done <"$work/proofs"
}

problems docs/faults.md >"$work/found"
if [ -s "$work/found" ]; then
  cat "$work/found"
  exit 1
fi

refuses() {  # what is said of this page with one more row
  { cat docs/faults.md; printf '%s\n' "$2"; } >"$work/page"
  problems "$work/page" | grep -qF "$1" || { echo "not refused: $2"; exit 1; }
}
refuses 'no such test: tests/io/none_test.cc' '| X1 | a | b | `tests/io/none_test.cc` |'
refuses 'has no test Kills.None' '| X1 | a | b | `tests/io/kills_test.cc` Kills.None |'
refuses 'got "soon"' '| X1 | a | b | soon |'
refuses 'four columns' '| X1 | a | `tests/cli/runs.test` |'
refuses 'more than one row: N6' '| N6 | a | b | `tests/cli/runs.test` |'
grep -v '^| W7 ' docs/faults.md >"$work/page"
problems "$work/page" | grep -qF 'no row: W7' || { echo "a missing row is not refused"; exit 1; }
