#!/usr/bin/env bash
# Code compiled for AVX2 or AVX-512 must not be picked by the linker for everybody: in such an object every symbol that may be
# shared between objects (weak) carries the instruction set in its name. DW.ref is a pointer of exception tables, no code.
# Usage: kernels_test.sh OBJECT...
set -euo pipefail
[ $# -gt 0 ] || { echo "no objects given"; exit 1; }
status=0
for object in "$@"; do
  shared=$(nm "$object" | awk '$2 ~ /^[WVu]$/' | grep -vE 'AVX2|AVX512|AMX|DW\.ref\.' | c++filt || true)
  if [ -n "$shared" ]; then
    printf '%s: these may run on a machine without its instructions; move them into namespace CPU_CAPABILITY or inline them\n%s\n' \
      "$object" "$shared"
    status=1
  fi
done
exit $status
