#!/usr/bin/env bash
# ./dev with made cmake, apt-get, sudo and dpkg-query: what it installs, when it configures, and what ./dev shell runs.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d "${TMPDIR:-/tmp}/a tree.XXXXXX")
trap 'rm -rf "$tree"' EXIT
failures=0
unset TORCH_DIR HONE_CUDA HONE_PARQUET HONE_PYARROW_DIR HONE_PRESET HONE_TEST_DATA HONE_JOBS CCACHE_DIR
unset http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY
export LOG=$tree/log MISSING='' PATH="$tree/bin:$PATH"
mkdir -p "$tree/hone/tools/setup" "$tree/bin" "$tree/away" "$tree/torch"
cp "$root/dev" "$root/packages.txt" "$tree/hone/"

command_() { { echo '#!/usr/bin/env bash'; cat; } >"$1"; chmod +x "$1"; }
for name in torch pyarrow; do command_ "$tree/hone/tools/setup/fetch-$name" <<<"echo fetch-$name \${HONE_CUDA:-0} >>\"\$LOG\""; done
command_ "$tree/hone/tools/setup/package" <<<'echo "package $*" >>"$LOG"'
command_ "$tree/bin/dpkg-query" <<'E2'
for name in "${@:4}"; do [[ " $MISSING " == *" $name "* ]] || echo "$name install ok installed"; done
E2
command_ "$tree/bin/id" <<<'echo 1000'
command_ "$tree/bin/sudo" <<'E2'
if [ "$1" != -n ]; then exec env -u http_proxy -u https_proxy -u HTTPS_PROXY "$@"; fi
E2
command_ "$tree/bin/apt-get" <<'E2'
echo "apt-get $* http_proxy=${http_proxy:-} https_proxy=${https_proxy:-}" >>"$LOG"
[ "$1" != update ]
E2
command_ "$tree/bin/ccache" <<<'echo "$CACHE"'
export CACHE=$tree/cache
command_ "$tree/bin/cmake" <<'E2'
if [ "$1" = --preset ]; then
  echo "configure $2 ${*:3}" >>"$LOG"
  mkdir -p "build/$2" && : >"build/$2/build.ninja"
  { echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD"; for option in "${@:3}"; do option=${option#-D}; echo "${option%%=*}:PATH=${option#*=}"; done; } \
    >"build/$2/CMakeCache.txt"
else
  echo "build $2 ${*:5}${CCACHE_DIR:+ ccache in $CCACHE_DIR}" >>"$LOG"
  echo "ninja: no work to do"
  mkdir -p "$2/examples"
  printf '#!/bin/sh\necho "hone in $(basename "$PWD"): $*"\nexit 5\n' >"$2/hone"
  chmod +x "$2/hone"
fi
E2

# Runs ./dev from another folder; its standard output, then what it did, then its exit status if it is not 0.
dev() {
  local status=0
  : >"$LOG"
  (cd "$tree/away" && ../hone/dev "$@") 2>"$tree/errors" || status=$?
  cat "$LOG"
  if [ $status != 0 ]; then echo "exit $status"; fi
}

expect() {  # what is checked, got, a pattern for all of it
  # shellcheck disable=SC2053
  [[ $2 == $3 ]] && return
  printf '%s: got\n%s\nexpected\n%s\n' "$1" "$2" "$3"
  cat "$tree/errors"
  failures=$((failures + 1))
}

plain="TORCH_DIR= -DHONE_PYARROW_DIR= -DHONE_PARQUET=ON"
expect "first" "$(dev build)" "*fetch-torch 0
configure release -D$plain
build build/release --target hone_program"
expect "again" "$(dev build | grep -c configure)" 0
expect "shell" "$(dev shell hone "1 2" 3)" "hone in away: 1 2 3
fetch-torch 0
build build/release --target hone_program examples
exit 5"
expect "package" "$(dev package)" "*build build/release --target hone_program hone_shipped
package build/release"
TORCH_DIR=../torch expect "a LibTorch of the user's" "$(TORCH_DIR=../torch dev build)" "*configure release -DTORCH_DIR=$tree/torch -D*"
expect "no longer" "$(dev build)" "*configure release -D$plain*"
expect "a folder that is not there" "$(TORCH_DIR=torch dev build)" "exit 1"
expect "without Parquet" "$(HONE_PARQUET=0 dev build)" "*configure release *HONE_PARQUET=OFF*"
expect "with it again" "$(HONE_PARQUET=1 dev build)" "*fetch-pyarrow 0
configure release *HONE_PARQUET=ON*"
touch -d '+1 minute' "$tree/hone/.deps/torch.files" 2>/dev/null || { mkdir -p "$tree/hone/.deps"; touch -d '+1 minute' "$tree/hone/.deps/torch.files"; }
expect "LibTorch came anew" "$(dev build)" "*configure release*"
rm "$tree/hone/.deps/torch.files"
mkdir "$tree/hone/.deps/pyarrow"
expect "Arrow that is there is looked after" "$(dev build)" "*fetch-pyarrow 0*"
expect "CUDA" "$(HONE_CUDA=1 dev build)" "*fetch-torch 1*configure cuda *build build/cuda *"
expect "CUDA by its preset" "$(HONE_PRESET=cuda dev build)" "*fetch-torch 1*build build/cuda *"
expect "CUDA and another preset" "$(HONE_CUDA=1 HONE_PRESET=dev dev build)" "exit 1"

expect "a cache that can be written" "$(dev build)" "*hone_program"
expect "a cache that cannot be written" "$(CACHE=/proc/none/ccache dev build)" "*hone_program ccache in $tree/hone/.deps/ccache"

touch "$tree/hone/build/release/old"
cp -r "$tree/hone" "$tree/copy" && rm -r "$tree/hone" && mv "$tree/copy" "$tree/hone"
expect "the tree in the same place" "$(dev build | grep -c configure)" 0
sed -i "s|^CMAKE_HOME_DIRECTORY.*|&-elsewhere|" "$tree/hone/build/release/CMakeCache.txt"
expect "the tree came from elsewhere" "$(dev build)" "*configure release*"
expect "what was built there" "$(ls "$tree/hone/build/release")" "CMakeCache.txt
build.ninja
examples
hone"

export MISSING="libpcre2-dev libgmock-dev" http_proxy=http://one:1 HTTPS_PROXY=http://two:2
expect "packages, behind a proxy, with a source that cannot be updated" "$(dev build)" \
  "*apt-get update http_proxy=http://one:1 https_proxy=http://two:2
apt-get * install -y --no-install-recommends libpcre2-dev libgmock-dev http_proxy=http://one:1 https_proxy=http://two:2
fetch-torch*"
exit $((failures > 0))
