#!/usr/bin/env bash
# docs/coming-from.md has each name of tests/coming_from_names.txt in one row, and what its rows say is there: tests,
# files, options of recipes. Without arguments the tree's own page; `--page FILE --names FILE` others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
page=docs/coming-from.md names=tests/coming_from_names.txt
while [ $# -gt 0 ]; do
  case $1 in
    --page) page=$2 ;;
    --names) names=$2 ;;
  esac
  shift 2
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Rows as `source name`, and what their last column names as `line proof`. A section's heading begins with its source.
awk -F '|' -v rows="$work/rows" -v proofs="$work/proofs" -v answers="$work/answers" '
function bad(what) { printf "%s:%d: %s\n", FILENAME, FNR, what; failed = 1 }
/^## / { source = ""; if (match($0, /^## `[a-z.]+`/)) source = substr($0, 5, RLENGTH - 5) }
source == "" || !/^\| *`/ { next }
NF != 5 { bad("a row has three columns: got " (NF - 2)); next }
{
  text = $2
  while (match(text, /`[^`]+`/)) {
    print source ":" substr(text, RSTART + 1, RLENGTH - 2) > rows
    text = substr(text, RSTART + RLENGTH)
  }
  answer = $3; gsub(/^ +| +$/, "", answer)
  proof = $4; gsub(/^ +| +$/, "", proof)
  if (answer == "") bad("neither what it is in hone nor why it is not needed")
  if (proof != "not needed" && proof !~ /^open: (issue [0-9]+|later)$/) {
    count = split(proof, parts, /; */)
    for (i = 1; i <= count; ++i) {
      if (parts[i] !~ /^`tests\/[^ `]+`( [A-Za-z0-9_]+\.[A-Za-z0-9_]+)?$/)
        bad("got \"" parts[i] "\", expected `tests/<file>`, `tests/<file>` Suite.Name, not needed, open: issue N or open: later")
      else { gsub(/`/, "", parts[i]); print FNR, parts[i] > proofs }
    }
    text = answer
    while (match(text, /`[^`]+`/)) { print FNR, substr(text, RSTART + 1, RLENGTH - 2) > answers; text = substr(text, RSTART + RLENGTH) }
  }
}
END { exit failed }' "$page" || failed=1
touch "$work/rows" "$work/proofs" "$work/answers"
LC_ALL=C sort "$work/rows" >"$work/sorted"
LC_ALL=C sort -u "$names" >"$work/names"

tell() { while read -r line; do echo "$1: $line"; failed=1; done; }  # what is on standard input is wrong
failed=${failed:-}
tell "$page: more than one row" < <(uniq -d "$work/sorted")
tell "$page: no row" < <(comm -13 <(uniq "$work/sorted") "$work/names")
tell "$page: a row, and no such name in $names" < <(comm -23 <(uniq "$work/sorted") "$work/names")

while read -r line file test; do
  if [ ! -f "$file" ]; then
    tell "$page:$line: no such test" <<<"$file"
  elif [ -n "$test" ] && ! grep -qE "^TEST(_F|_P)?\(${test%%.*}, *${test#*.}\)" "$file"; then
    tell "$page:$line: $file has no test" <<<"$test"
  fi
done < <(sort -u -k2 "$work/proofs")

# Options and files that the rows name.
hone docs recipe | sed -n 's/^| `\([^`]*\)`.*/\1/p; s/^## `\([^:`]*\).*/\1/p' | sort -u >"$work/options"
while read -r line word; do
  case $word in
    include/*|src/*|docs/*|examples/*|recipes/*) [ -e "$word" ] || tell "$page:$line: no such file" <<<"$word" ;;
    model.*|adapter.*|data.*|objective.*|optimizer.*|trainer.*|parallel.*|callbacks.*|trackers.*|run.*)
      key=${word%%[:= ]*}
      case $key in *.json|*.yaml|*.safetensors|*.jsonl|*.md|*'<'*) continue ;; esac
      below=${key#*.}
      grep -qxF -e "$key" -e "${below#schedule.}" -e "${below#type.}" "$work/options" ||
        tell "$page:$line: no such option" <<<"$key"
      ;;
  esac
done < <(sort -u -k2 "$work/answers")
[ -z "$failed" ] || exit 1
