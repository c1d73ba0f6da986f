#!/usr/bin/env bash
# What programs in these folders load at their start, by their dynamic sections: nothing of CUDA (unless --cuda), and nothing from
# the current directory, as an empty or relative entry of the search path does. Usage: check_linked.sh [--cuda] FOLDER...
set -euo pipefail
export LC_ALL=C
cuda='^lib(torch_cuda|c10_cuda|cuda|cudart|cublas|cublasLt|cudnn|cufft|cufile|cupti|curand|cusolver|cusparse|cusparseLt|nccl|nvrtc|nvshmem|nvJitLink|nvToolsExt)[._]'
if [ "${1:-}" = --cuda ]; then cuda='^$'; shift; fi
files=0 status=0
complain() { printf '%s\n' "$*"; status=1; }

check_path() {  # file, search path
  local entry
  while read -r entry; do
    case $entry in
      /* | '$ORIGIN' | '$ORIGIN/'* | '${ORIGIN}' | '${ORIGIN}/'*) ;;
      *) complain "$1: searches \"$entry\", which is in whatever folder is current; all of it: $2"; return ;;
    esac
  done < <(tr ':' '\n' <<<"$2")
}

check() {  # file
  local kind value
  while IFS=$'\t' read -r kind value; do
    if [ "$kind" != NEEDED ]; then
      check_path "$1" "$value"
    elif [[ $value =~ $cuda ]]; then
      complain "$1: needs $value, which is CUDA's"
    elif [[ $value == */* ]]; then
      complain "$1: needs $value by path"
    fi
  done < <(readelf -d "$1" | sed -nE 's/^.*\((NEEDED|RPATH|RUNPATH)\)[^[]*\[(.*)\]$/\1\t\2/p')
}

while IFS= read -r -d '' file; do
  [ "$(head -c 4 "$file")" = $'\x7fELF' ] || continue
  files=$((files + 1))
  check "$file"
done < <(find "$@" -name CMakeFiles -prune -o -type f \( -perm -u+x -o -name '*.so*' \) -print0)
[ $files -gt 0 ] || complain "no program in $*"
echo "$files programs read"
exit $status
