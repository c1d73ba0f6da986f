#!/usr/bin/env bash
# tools/check-layers refuses each kind of forbidden #include, one at a time, and accepts a clean tree.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

expect() {  # accepted|refused, file, line
  rm -rf "${tree:?}"/*
  expect_beside "$@"
}

expect_beside() {  # the same, with the files of before
  mkdir -p "$tree/src/base" "$tree/include/hone" "$tree/$(dirname "$2")"
  cp "$root/src/LAYERS" "$tree/src/"
  : >"$tree/include/hone/error.h"
  echo "$3" >"$tree/$2"
  local got=accepted
  "$root/tools/check-layers" "$tree" >"$tree/out" 2>&1 || got=refused
  if [ $got != "$1" ]; then
    echo "$2 with $3: $got, expected $1"
    cat "$tree/out"
    failures=$((failures + 1))
  fi
}

expect accepted src/io/a.cc '#include "base/env.h"'
expect accepted src/cli/a.cc '#include "train/state.h"'
expect accepted src/io/a.cc '#include "hone/error.h"'
expect refused src/base/a.cc '#include "io/json.h"'
expect refused src/base/a.cc '#include "hone/text.h"'
expect refused src/io/a.cc '#include "json.h"'
expect refused src/io/a.cc '#include <ATen/ATen.h>'
expect accepted src/nn/a.cc '#include <ATen/ATen.h>'
expect refused src/nn/a.cc '#include <torch/torch.h>'
expect refused src/nn/a.cc '#include <torch/csrc/autograd/custom_function.h>'
expect accepted src/ops/a.cc '#include <torch/csrc/autograd/custom_function.h>'
expect refused src/train/a.cc '#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>'
expect refused src/elsewhere/a.cc '#include <string>'
expect refused include/hone/unlisted.h '#include <string>'
expect refused include/hone/error.h '#include "base/env.h"'
expect refused include/hone/model.h '#include <ATen/ATen.h>'
# Circles: of headers, through a .cc, and longer ones; what only leads into one, or out of it, is none.
expect accepted src/io/b.h '#include "io/c.h"'
expect_beside accepted src/io/c.h '#include "io/d.h"'
expect_beside accepted src/io/c.cc '#include "io/c.h"'
expect_beside accepted src/io/a.cc '#include "io/b.h"'
expect_beside refused src/io/d.cc '#include "io/b.h"'
grep -qE '^a circle of includes: .*io/(b|c|d) -> io/(b|c|d)' "$tree/out" || { echo "no circle named"; cat "$tree/out"; failures=$((failures + 1)); }
expect_beside accepted src/io/d.cc '#include "io/e.h"'
expect accepted src/io/f.h '#include "io/g.h"'
expect_beside refused src/io/g-inl.h '#include "io/f.h"'

# Nobody above the models takes a model for a causal one.
expect accepted src/models/a.cc 'auto x = dynamic_cast<const CausalLm*>(y);'
expect refused src/train/a.cc 'auto x = dynamic_cast<const CausalLm*>(y);'
expect refused src/cli/a.cc 'auto& x = static_cast<CausalLm&>(y);'

# Memory of tensors, and reads that wait for a device, are behind tensor/host.h.
expect accepted src/ops/a.cc 'auto* x = y.const_data_ptr<float>();'
expect accepted src/tensor/a.cc 'auto* x = y.mutable_data_ptr<float>();'
expect accepted src/train/a.cc 'const double x = host::number(y);'
expect refused src/nn/a.cc 'auto* x = y.const_data_ptr<float>();'
expect refused src/hub/a.h 'auto* x = y.data_ptr();'
expect refused src/evals/a.cc 'const double x = y.item<double>();'
expect refused src/train/a.cc 'const double x = y.item().toDouble();'
expect refused src/evals/a.cc 'const Tensor x = y.cpu();'
expect refused src/nn/a.cc 'const Tensor x = y.to(at::kCPU, at::kLong);'
exit $((failures > 0))
