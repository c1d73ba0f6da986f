#!/usr/bin/env bash
# Installs a build into a temporary folder, then configures, builds and runs the consumer project against that copy.
# Usage: check.sh CMAKE BUILD-FOLDER GENERATOR [--cuda, when hone was built with it]
set -euo pipefail
cmake=$1 build=$2 generator=$3 cuda=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cmake" --install "$build" --prefix "$folder/prefix" >"$folder/log" || { cat "$folder/log"; exit 1; }
"$cmake" -S "$here" -B "$folder/build" -G "$generator" -DCMAKE_PREFIX_PATH="$folder/prefix" -DCMAKE_BUILD_TYPE=Release
"$cmake" --build "$folder/build"
for program in use_core use_hone; do
  [ ! -x "$folder/build/$program" ] || "$folder/build/$program"
done
if [ -x "$folder/prefix/bin/hone" ]; then
  "$folder/prefix/bin/hone" --version
  "$folder/prefix/bin/hone" --plugin "$folder/build/libmy_model.so" init "$folder/model" --model.type=parallel_lm --tokenizer bytes
fi
"$here/../harness/check_linked.sh" $cuda "$folder/prefix" "$folder/build"
