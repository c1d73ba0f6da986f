#!/usr/bin/env bash
# The pages hold for who has a package, too: their links lead to what it has (docs/, recipes/), a page that names what
# is in the source tree alone says so, and docs/README.md lists all of them. $1: another folder with docs/ and recipes/.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"
bad=0
fail() { echo "$*"; bad=1; }

# Without blocks of code and what stands between backquotes, where brackets are none of Markdown.
prose() { awk '/^ *```/ { inside = !inside; next } !inside' "$1" | sed 's/`[^`]*`//g'; }
links() { prose "$1" | grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//' | grep -vE '^(https?|mailto):|^#' || true; }

# A heading as GitHub names it.
anchors() {
  awk '/^ *```/ { inside = !inside; next } !inside && /^#+ /' "$1" |
    sed -E 's/^#+ //; s/[^[:alnum:] _-]//g; s/ /-/g' | tr '[:upper:]' '[:lower:]'
}

while read -r page; do
  while read -r link; do
    place=$(realpath -m --relative-to=. "$(dirname "$page")/${link%%#*}")
    [[ $place == docs || $place == docs/* || $place == recipes/* ]] ||
      { fail "$page: $link: leads to what a package does not have"; continue; }
    [ -e "$place" ] || { fail "$page: $link: is not there"; continue; }
    [[ $link == *'#'* ]] || continue
    anchors "$place" | grep -qxF "${link#*#}" || fail "$page: $link: no such heading"
  done < <(links "$page")
done < <(find docs -name '*.md' | sort)

ours='(^|[^[:alnum:]/.])(\./dev|(tests|bench|examples|tools)/[a-z])'
while read -r page; do
  if sed 's/<!--.*-->//' "$page" | grep -qE "$ours" && ! grep -q 'source tree' "$page"; then
    fail "$page: names what is in the source tree alone, and does not say so"
  fi
  [ "$page" = docs/README.md ] && continue
  grep -qF "](${page#docs/}):" docs/README.md || fail "docs/README.md does not list $page"
done < <(find docs -path docs/design -prune -o -name '*.md' -print | sort)
exit $bad
