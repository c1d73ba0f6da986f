// The loss of a language-model head of whose rows each of several ranks has some, and none has a whole row of logits.
//
// Letters: M tokens of all ranks, D hidden, v words of this rank, V of all.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "ops/cross_entropy.h"

namespace hone::ops {

struct HeadSlice {
  at::Tensor head_vD;
  at::Tensor bias_v = {};        // added to its logits, before the cap; undefined: none
  std::int64_t first = 0;        // number of its first word
  std::int64_t vocab = 0;        // V
  std::int64_t ranks = 1;
  // Of all ranks, element by element, without a graph: sums, in their order, and largest values.
  std::function<at::Tensor(const at::Tensor&)> total = {}, largest = {};
  std::int64_t begin = 0, end = 0;  // this rank's tokens among all
};

// As linear_cross_entropy() of all ranks' tokens, each of which is given to all of them: the losses of this rank's
// tokens. Gradients are this rank's part of those of all tokens' losses: REQUIRES that all ranks multiply theirs with
// the same further on. Not of options with a teacher or by entropy.
at::Tensor sliced_cross_entropy(const at::Tensor& hidden_MD, const HeadSlice& slice, const at::Tensor& labels_M,
                                const at::Tensor& weight_M, const CrossEntropyOptions& options, LossSums* sums);

}  // namespace hone::ops
