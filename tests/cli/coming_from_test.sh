#!/usr/bin/env bash
# docs/coming-from.md has each name of tests/coming_from_names.txt in one row, and what its rows say is there: tests,
# files, options of recipes. With no argument this tree's page, and then that pages with one mistake are refused.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
hone docs recipe | sed -n 's/^| `\([^`]*\)`.*/\1/p; s/^## `\([^:`]*\).*/\1/p' | sort -u >"$work/options"

# What is in rows of a page, into $work: `rows` (source:name), `proofs` and `answers` (line, what stands in backticks).
# A section's heading begins with its source.
read_rows() {
  : >"$work/rows" && : >"$work/proofs" && : >"$work/answers"
  awk -F '|' -v rows="$work/rows" -v proofs="$work/proofs" -v answers="$work/answers" '
    function bad(what) { printf "%s:%d: %s\n", FILENAME, FNR, what }
    function trimmed(text) { gsub(/^ +| +$/, "", text); return text }
    function quoted(text, before, file) {
      for (; match(text, /`[^`]+`/); text = substr(text, RSTART + RLENGTH))
        print before substr(text, RSTART + 1, RLENGTH - 2) > file
    }
    /^## / { source = match($0, /^## `[a-z.]+`/) ? substr($0, 5, RLENGTH - 5) : "" }
    source == "" || !/^\| *`/ { next }
    NF != 5 { bad("a row has three columns; got " NF - 2); next }
    {
      quoted($2, source ":", rows)
      if (trimmed($3) == "") bad("neither what it is in hone nor why it is not needed")
      if (trimmed($4) ~ /^(not needed|open: later|open: issue [0-9]+)$/) next
      quoted($3, FNR " ", answers)
      count = split(trimmed($4), parts, /; */)
      for (i = 1; i <= count; ++i)
        if (parts[i] ~ /^`tests\/[^ `]+`( [A-Za-z0-9_]+\.[A-Za-z0-9_]+)?$/) {
          gsub(/`/, "", parts[i])
          print FNR, parts[i] > proofs
        } else
          bad("got \"" parts[i] "\", expected `tests/FILE`, `tests/FILE` Suite.Name, not needed or open: issue N")
    }' "$1"
}

problems() {  # page, names
  read_rows "$1"
  LC_ALL=C sort "$work/rows" >"$work/sorted"
  uniq -d "$work/sorted" | sed "s|^|$1: more than one row: |"
  uniq "$work/sorted" | LC_ALL=C comm -13 - <(LC_ALL=C sort -u "$2") | sed "s|^|$1: no row: |"
  uniq "$work/sorted" | LC_ALL=C comm -23 - <(LC_ALL=C sort -u "$2") | sed "s|^|$1: not among the names: |"
  while read -r line file test; do
    if [ ! -f "$file" ]; then
      echo "$1:$line: no such test: $file"
    elif [ -n "$test" ] && ! grep -qE "^TEST(_F|_P)?\(${test%%.*}, *${test#*.}\)" "$file"; then
      echo "$1:$line: $file has no test $test"
    fi
  done < <(sort -u -k2 "$work/proofs")
  while read -r line word; do
    case $word in
      include/* | docs/*) [ -e "$word" ] || echo "$1:$line: no such file: $word" ;;
      *.json | *.yaml | *.safetensors | *.jsonl) ;;
      model.* | adapter.* | data.* | objective.* | optimizer.* | trainer.* | parallel.* | callbacks.* | run.*)
        key=${word%%[:= ]*}
        grep -qxF -e "$key" -e "${key#*.}" "$work/options" || echo "$1:$line: no such option: $key"
        ;;
    esac
  done < <(sort -u -k2 "$work/answers")
}

problems docs/coming-from.md tests/coming_from_names.txt >"$work/found"
if [ -s "$work/found" ]; then
  cat "$work/found"
  exit 1
fi

printf 'hf:a\nhf:b\n' >"$work/names"
refuses() {  # what is said of a page with this second row
  printf '## `hf`: a page\n| there | hone | proof |\n|---|---|---|\n| `a` | x | not needed |\n%s\n' "$2" >"$work/page"
  problems "$work/page" "$work/names" | grep -qF "$1" || { echo "not refused: $2"; exit 1; }
}
test=tests/cli/coming_from_test.sh
refuses 'no row: hf:b' ''
refuses 'more than one row: hf:a' '| `b`, `a` | x | not needed |'
refuses 'not among the names: hf:c' '| `b`, `c` | x | not needed |'
refuses 'no such test: tests/none_test.cc' '| `b` | x | `tests/none_test.cc` |'
refuses 'has no test Recipe.None' '| `b` | x | `tests/train/recipe_test.cc` Recipe.None |'
refuses 'no such option: trainer.none' "| \`b\` | \`trainer.none\` | \`$test\` |"
refuses 'no such file: docs/none.md' "| \`b\` | \`docs/none.md\` | \`$test\` |"
refuses 'got "soon"' '| `b` | x | soon |'
refuses 'neither what' '| `b` | | not needed |'
refuses 'three columns' '| `b` | not needed |'
printf '## `hf`: a page\n| `a`, `b` | `trainer.steps` | `%s` |\n' "$test" >"$work/page"
[ -z "$(problems "$work/page" "$work/names")" ]
