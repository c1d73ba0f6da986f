#!/usr/bin/env bash
# ./dev clean deletes what CMake made of this tree, and nothing else that lies in build/.
set -euo pipefail
folder=$(realpath "$(mktemp -d)")
trap 'rm -rf "$folder"' EXIT
cp "$HONE_SOURCE/dev" "$folder"
cd "$folder"
made() { mkdir -p "$1/sub"; echo "CMAKE_HOME_DIRECTORY:INTERNAL=$2" >"$1/CMakeCache.txt"; touch "$1.log"; }
made build/release "$PWD"
made build/other /elsewhere
made build/fuzz "$PWD"
mkdir -p build/fuzz/failures/yaml build/notes elsewhere/tree
made elsewhere/tree "$PWD"
ln -s ../elsewhere/tree build/linked
echo precious >build/notes/todo.txt
./dev clean | grep -q 'build/ keeps: .*notes' || { echo "it does not say what it keeps"; exit 1; }
for kept in build/notes/todo.txt build/other/sub build/fuzz/failures/yaml build/linked elsewhere/tree/sub; do
  [ -e $kept ] || { echo "$kept is gone"; exit 1; }
done
if [ -e build/release ] || [ -e build/release.log ]; then echo "build/release is still there"; exit 1; fi
rm -r build
made build/release "$PWD"
./dev clean
[ ! -e build ] || { echo "build/ is still there"; exit 1; }
