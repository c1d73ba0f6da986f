#!/usr/bin/env bash
# tools/setup/fetch-torch against a small index of made wheels: what is kept of a CUDA build, and that half a .deps is noticed and mended.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
python3 -c 'import ensurepip' 2>/dev/null || { echo "skipped: no python3 with ensurepip, which fetching needs"; exit 77; }
tree=$(mktemp -d "${TMPDIR:-/tmp}/a tree.XXXXXX")
trap 'rm -rf "$tree"' EXIT
failures=0
mkdir -p "$tree/tools/setup" "$tree/index" "$tree/away"
cp "$root"/tools/setup/{fetch-torch,fetch-pyarrow,pip-setup} "$tree/tools/setup/"
while read -r name; do unset "$name"; done < <(compgen -e PIP_ || true)
unset TORCH_DIR HONE_CUDA HONE_PYARROW_DIR HONE_TORCH_VERSION HONE_PYARROW_VERSION
export PIP_CONFIG_FILE=/dev/null PIP_NO_INDEX=1 PIP_FIND_LINKS="file://${tree// /%20}/index" PYTHONDONTWRITEBYTECODE=1

library() {  # file, libraries that it needs: a real one, as the script asks the loader
  mkdir -p "$(dirname "$1")"
  "${CC:-cc}" -shared -o "$1" -x c /dev/null -x none -Wl,-soname,"$(basename "$1")" -Wl,--no-as-needed "${@:2}" \
    '-Wl,-rpath,$ORIGIN:$ORIGIN/../../nvidia/cu13/lib'
}

wheel() {  # name-version, tags, folder of its files, further lines of its metadata...
  mkdir -p "$3/${1/-*/}-${1#*-}.dist-info"
  { printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "${1/-*/}" "${1#*-}"
    if [ $# -gt 3 ]; then printf '%s\n' "${@:4}"; fi; } >"$3/$1.dist-info/METADATA"
  printf 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: %s\n' "$2" >"$3/$1.dist-info/WHEEL"
  : >"$3/$1.dist-info/RECORD"
  (cd "$3" && python3 -c 'import shutil, sys; shutil.move(shutil.make_archive("../whole", "zip", "."), sys.argv[1])' "$tree/index/$1-$2.whl")
}

make_index() {
  local made=$tree/made lib=$tree/made/torch/torch/lib file machine
  machine=$(uname -m)
  library "$made/runtime/nvidia/cu13/lib/libcudart.so.13"
  library "$made/cupti/nvidia/cu13/lib/libcupti.so.13"
  library "$made/cupti/nvidia/cu13/lib/libnvperf_host.so"
  library "$made/cublas/nvidia/cu13/lib/libcublas.so.13"
  library "$lib/libtorch_cpu.so" "$made/runtime/nvidia/cu13/lib/libcudart.so.13" "$made/cupti/nvidia/cu13/lib/libcupti.so.13"
  library "$lib/libtorch_cuda.so" "$made/cublas/nvidia/cu13/lib/libcublas.so.13"
  for file in libc10 libc10_cuda libtorch libtorch_nvshmem libtorch_python libcaffe2_nvrtc; do library "$lib/$file.so"; done
  library "$lib/libgomp.so.1"
  for file in ATen/ATen.h ATen/detail/CUDAHooksInterface.h ATen/cuda/CUDAContext.h ATen/ops/add_cuda_dispatch.h c10/cuda/CUDAGuard.h; do
    mkdir -p "$made/torch/torch/include/$(dirname $file)"
    echo "// $file" >"$made/torch/torch/include/$file"
  done
  mkdir -p "$made/torch/torch/nn" && : >"$made/torch/torch/nn/module.py"
  for version in 2.13.0 2.12.0; do  # the second for a change of version
    rm -rf "$made"/torch/*.dist-info
    mkdir -p "$made/torch/torch-$version.dist-info/licenses/third_party/fmt"
    echo yours >"$made/torch/torch-$version.dist-info/licenses/LICENSE"
    echo yours >"$made/torch/torch-$version.dist-info/licenses/third_party/fmt/LICENSE"
    wheel torch-$version "cp311-cp311-manylinux_2_5_$machine" "$made/torch" \
      'Requires-Dist: cuda-toolkit[cublas,cudart,cupti]==13.0.3; platform_system == "Linux"' \
      'Requires-Dist: nvidia-cublas==13.1; platform_system == "Linux"' 'Requires-Dist: triton==9; platform_system == "Linux"'
  done
  mkdir -p "$made/toolkit" "$made/crt/nvidia/cu13/include/crt" "$made"/cccl/nvidia/cu13/include/{nv,cccl}
  mkdir -p "$made/frontend/include"
  : >"$made/cccl/nvidia/cu13/include/nv/target"
  : >"$made/cccl/nvidia/cu13/include/cccl/sort.h"
  : >"$made/frontend/include/cudnn_frontend.h"
  : >"$made/crt/nvidia/cu13/include/crt/host_defines.h"
  mkdir -p "$made/runtime/nvidia_cuda_runtime-13.0.96.dist-info"
  echo ours >"$made/runtime/nvidia_cuda_runtime-13.0.96.dist-info/License.txt"
  wheel nvidia_cuda_runtime-13.0.96 "py3-none-manylinux_2_5_$machine" "$made/runtime"
  wheel nvidia_cuda_cupti-13.0.85 "py3-none-manylinux_2_5_$machine" "$made/cupti"
  wheel nvidia_cublas-13.1 "py3-none-manylinux_2_5_$machine" "$made/cublas"
  wheel nvidia_cuda_crt-13.0.88 "py3-none-manylinux_2_5_$machine" "$made/crt"
  wheel nvidia_cuda_cccl-13.0.85 "py3-none-manylinux_2_5_$machine" "$made/cccl"
  wheel nvidia_cudnn_frontend-1.18.0 "cp311-cp311-manylinux_2_5_$machine" "$made/frontend"
  wheel cuda_toolkit-13.0.3 py3-none-any "$made/toolkit" 'Provides-Extra: crt' 'Provides-Extra: cccl' 'Provides-Extra: cudart' 'Provides-Extra: cupti' 'Provides-Extra: cublas' \
    'Requires-Dist: nvidia-cuda-runtime==13.0.*; extra == "cudart"' 'Requires-Dist: nvidia-cuda-cupti==13.0.*; extra == "cupti"' \
    'Requires-Dist: nvidia-cublas==13.1; extra == "cublas"' 'Requires-Dist: nvidia-cuda-crt==13.0.*; extra == "crt"' \
    'Requires-Dist: nvidia-cuda-cccl==13.0.*; extra == "cccl"'
}

# Runs the script from another folder: "fetched" when it went to the index, "nothing" when it had nothing to do.
fetched() {
  local status=0
  (cd "$tree/away" && "../tools/setup/fetch-torch") >"$tree/out" 2>&1 || status=$?
  if [ $status != 0 ]; then echo "failed"; elif [ -s "$tree/out" ]; then echo fetched; else echo nothing; fi
}

expect() {  # what is checked, got, expected
  [ "$2" = "$3" ] && return
  printf '%s: got %s, expected %s\n' "$1" "$2" "$3"
  cat "$tree/out"
  failures=$((failures + 1))
}

there() { (cd "$tree/.deps" && find torch nvidia -type f ! -path '*/licenses/*' | LC_ALL=C sort | tr '\n' ' '); }
licenses() { (cd "$tree/.deps" && find . -path '*/licenses/*' -type f | LC_ALL=C sort | xargs); }

# What the disk has left is the test's to say: room for 10 GB is asked for, which the made wheels do not take.
mkdir "$tree/bin"
echo 50000 >"$tree/free"
printf '%s\n' '#!/bin/sh' 'echo Filesystem; echo "/dev/disk 0 0 $(cat "${0%/bin/df}/free") 0% /"' >"$tree/bin/df"
chmod +x "$tree/bin/df"
export PATH="$tree/bin:$PATH"

make_index
cpu="nvidia/cu13/lib/libcudart.so.13 nvidia/cu13/lib/libcupti.so.13 torch/include/ATen/ATen.h \
torch/include/ATen/detail/CUDAHooksInterface.h torch/lib/libc10.so torch/lib/libgomp.so.1 torch/lib/libtorch_cpu.so "
expect "a fresh tree" "$(fetched)" fetched
expect "what is kept without CUDA" "$(there)" "$cpu"
expect "licences" "$(licenses)" "./nvidia/licenses/nvidia_cuda_runtime-13.0.96/License.txt \
./torch/licenses/torch-2.13.0/licenses/LICENSE ./torch/licenses/torch-2.13.0/licenses/third_party/fmt/LICENSE"
expect "what is left beside it" "$(ls "$tree/.deps" | tr '\n' ' ')" "nvidia pip.log torch torch.files venv "
expect "a second time" "$(fetched)" nothing

repaired() {  # what was done to .deps
  expect "$1" "$(fetched)" fetched
  expect "$1, what is there then" "$(there)" "$cpu"
  expect "$1, a second time" "$(fetched)" nothing
}
cd "$tree/.deps"
rm torch/include/ATen/ATen.h && repaired "a header is missing"
rm -r nvidia && repaired "a folder is missing"
: >torch/lib/libtorch_cpu.so && repaired "a library is empty"
mkdir new tmp wheels && echo half >wheels/nvidia_half.whl && rm -r torch.files torch && repaired "killed while it was fetched"
rm torch.files && touch torch/.hone-2.13.0-cuda0 torch/lib/libtorch_cuda.so && repaired "an older script's, with CUDA"
rm venv/bin/python torch.files && repaired "its Python is gone"
rm -r venv/lib torch.files && repaired "its pip is gone"
export HONE_TORCH_VERSION=2.12.0
repaired "another version"
unset HONE_TORCH_VERSION
repaired "the first version again"

mv "$tree/index/nvidia_cublas-13.1"* "$tree/away"
export HONE_CUDA=1
expect "with CUDA, but a wheel cannot be had" "$(fetched)" failed
mv "$tree/away/nvidia_cublas-13.1"* "$tree/index"
expect "what is there when fetching failed" "$(there)" "$cpu"
echo 9999 >"$tree/free"
expect "with CUDA, but the disk is too full" "$(fetched)" failed
expect "what it says then" "$(grep -c 'not enough room in .*: got 9999 MB, expected at least 10000 MB' "$tree/out")" 1
echo 50000 >"$tree/free"
expect "what is there without room" "$(there)" "$cpu"
expect "with CUDA" "$(fetched)" fetched
expect "files with CUDA" "$(cd "$tree/.deps/torch-cuda" && find torch nvidia -type f | grep -c -E 'cublas|libnvperf|libtorch_cuda|libc10_cuda|ATen/cuda|libtorch_python')" 5
expect "what its headers and linkers want" \
  "$(cd "$tree/.deps/torch-cuda/nvidia" && find */include cu13/lib/libcudart.so ! -type d | LC_ALL=C sort | xargs)" \
  "$(echo cu13/include/{crt/host_defines.h,nv/target} cu13/lib/libcudart.so cudnn_frontend/include/cudnn_frontend.h)"
expect "what is there without CUDA, beside it" "$(there)" "$cpu"
expect "with CUDA, a second time" "$(fetched)" nothing
rm "$tree/.deps/torch-cuda/torch/lib/libtorch_cuda.so"
expect "a library of CUDA's half is missing" "$(fetched)" fetched
unset HONE_CUDA
expect "without CUDA again" "$(fetched)" nothing
rm "$tree/.deps/torch/lib/libc10.so"
expect "what is without CUDA is mended" "$(fetched)" fetched
expect "which leaves CUDA's alone" "$(HONE_CUDA=1 fetched)" nothing
expect "no such version" "$(HONE_TORCH_VERSION=9 fetched)" failed
expect "what is there then" "$(HONE_CUDA=1 fetched)" nothing
expect "TORCH_DIR" "$(TORCH_DIR=/somewhere HONE_TORCH_VERSION=9 fetched)" nothing
exit $((failures > 0))
