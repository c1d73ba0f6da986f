#!/usr/bin/env bash
# Builds the torch-free half with a sanitizer and runs its tests. Usage: sanitized.sh asan|tsan  (presets of that name)
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ ! -e "build/$1/build.ninja" ]; then cmake --preset "$1"; fi
cmake --build --preset "$1" -j "${HONE_JOBS:-$(nproc)}"
ctest --preset "$1" -j "${HONE_JOBS:-$(nproc)}" -E '^(tree|harness)/'  # those are of no program
