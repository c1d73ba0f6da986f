#!/usr/bin/env bash
# ./dev package: what it makes of the build folder $1 runs from any folder, with nothing of the tree, nothing installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath --relative-to=. "$1")
place=$(mktemp -d "${TMPDIR:-/tmp}/a place.XXXXXX")
trap 'rm -rf "$place"' EXIT
fail() { echo "$*"; exit 1; }

cmake --build "$build" --target hone_shipped >"$place/log" 2>&1 || { tail -20 "$place/log"; fail "it is not built"; }
tools/setup/package "$build" >"$place/log"
file=$(echo "$build"/hone-*.tar.gz)
[ -e "$file" ] || fail "no file: $(cat "$place/log")"
sum=$(sha256sum <"$file")
tar -C "$place" -xzf "$file"
root=$(echo "$place"/hone-*/)
cd "$root"

for part in docs/guide recipes/lora.yaml licenses/hone.txt README.txt bin/hone lib/torch/lib/libtorch_cpu.so; do
  [ -e "$part" ] || fail "$part is not there"
done
if readelf -d bin/hone | grep -E 'R(UN)?PATH' | grep -v '\[\$ORIGIN/'; then fail "it looks for libraries elsewhere"; fi
if grep -q "$OLDPWD/" bin/hone; then fail "the tree's path is in it"; fi
while read -r library; do
  if [[ ${library##*/} =~ ^lib(c|m|dl|pthread|rt|util|resolv)\.so ]]; then continue; fi  # of the C library
  [[ $library == "$place"/* ]] || fail "it loads $library"
done < <(env -i ldd bin/hone | awk '$2 == "=>" { print $3 == "not" ? $1 : $0 }' | sed 's/^.* => //; s/ (0x.*//')

hone() { env -i PATH=/usr/bin:/bin HOME="$place" bin/hone "$@"; }
[[ $(hone --version) == "hone "* ]] || fail "no version"
for i in $(seq 20); do echo "{\"text\": \"some text $i\"}"; done >d.jsonl
cat >r.yaml <<'R'
model: {type: llama, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2}
tokenizer: bytes
data: {train: d.jsonl, max_length: 32}
trainer: {batch_size: 2, accumulate: 2, steps: 2}
run: {folder: out}
R
hone train r.yaml --quiet
hone generate out --prompt some --max-new-tokens 3 >/dev/null
env -i PATH=/usr/bin:/bin bin/hone launch -n 2 train r.yaml --run.folder=two --quiet

cd "$OLDPWD"
tools/setup/package "$build" >"$place/log"
[ "$(sha256sum <"$file")" = "$sum" ] || fail "the same build gave other bytes"
rm "$file"
