// A router's choice: the likeliest experts of each token, and how evenly all of them are used.
//
// Letters: N tokens, E experts, K experts of a token.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/primitives.h"

namespace hone::ops {

struct Choice {
  // fp32 (fp64): the chosen experts' probabilities by a softmax over all experts, from the largest on, each divided by
  // their sum if `normalise` asks for it; and who they are (int64). Of equally likely ones a device may take any.
  at::Tensor weight_NK, expert_NK;
  at::Tensor probability_E;  // of all tokens' probabilities the sum, with its graph; undefined if it is not wanted
};
Choice choose_experts(const at::Tensor& logits_NE, const ChoiceOptions& options, bool with_sum);

// Of slots of experts, expert e's being [begin_E1[e], begin_E1[e + 1]): the largest share of one relative to an even
// share, and the entropy of the shares in nats; both times `weight`, then that; fp64, and nobody waits for them.
at::Tensor measure_spread(const at::Tensor& begin_E1, double weight);

namespace reference {
Choice choose_experts(const at::Tensor& logits_NE, const ChoiceOptions& options, bool with_sum);
}  // namespace reference

}  // namespace hone::ops
