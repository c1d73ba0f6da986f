// What the short way knows besides attention of heads and plain MLPs: routed experts, and layers that hold a memory.
//
// Letters: D hidden, E experts, I inner of an expert, J = 2 I; C convolved channels, T taps, G heads of keys, H heads
// of values, K and V their sizes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/grouped_router.h"
#include "ops/linear.h"
#include "ops/short_conv.h"
#include "ops/stacked_experts.h"

namespace hone::nn {

// What routed experts give, each times its weight; and what every token goes to besides.
struct RoutedForm {
  ops::LinearWeight router = {};  // one of the two
  at::Tensor grouped_router_ED = {};
  std::int64_t per_token = 1;
  bool normalise = false;      // of the former
  ops::GroupedRule rule = {};  // of the latter
  at::Tensor correction_E = {};  // undefined: none
  std::vector<ops::GatedMlpWeights> experts = {};  // one of the two
  std::optional<ops::StackedExperts> stacked = {};
  ops::Activation activation = ops::Activation::silu;
  std::optional<ops::GatedMlpWeights> shared = {};
  ops::LinearWeight shared_gate = {};  // the shared one is multiplied with its sigmoid; undefined: it is not
  std::int64_t count() const {
    return stacked ? stacked->gate_up_EDJ.size(0) : static_cast<std::int64_t>(experts.size());
  }
};

// A layer that goes on from a memory: products whose results lie side by side in one row, a short convolution of some
// of them, what the memory makes of it, and a product. Columns are those of that row.
struct MemoryForm {
  enum class Kind {
    delta,       // nn::gated_delta, a norm of each head, gated
    state,       // nn::ssd, gated and normed as `norm_of` says
    convolution  // none but the convolution's: what it reads is gated, and so is its result
  } kind = Kind::delta;
  std::vector<ops::LinearWeight> in = {};
  ops::LinearWeight out = {};
  ops::ShortConvWeights convolution = {};
  struct Run {
    std::int64_t column, channel, count;
  };
  std::vector<Run> convolved = {};  // what of the row it reads, and as which channels
  std::int64_t groups = 0, heads = 0, key_size = 0, value_size = 0;
  // Of each group (head of keys, with its heads of values): gates of what is read, and for each head what its step
  // (delta: beta) and its decay are made of.
  struct Columns {
    std::int64_t first = 0, from_group_to_group = 0;
  };
  Columns gate = {}, step = {}, decay = {};
  at::Tensor rate_H = {};  // fp32 (fp64), as are these: the exponential of A_log
  at::Tensor bias_H = {}, skip_H = {};
  double least_step = 0, most_step = 0;  // of states
  enum class NormOf { none, gated, then_gated } norm_of = NormOf::then_gated;
  at::Tensor norm = {};  // [V] of delta, [H V] of states
  double eps = 1e-6;
  std::int64_t norm_groups = 1;  // of states
};

}  // namespace hone::nn
