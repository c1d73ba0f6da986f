// What the short way knows besides attention of heads and plain MLPs: attention by latents, routed experts, and layers
// that hold a memory.
//
// Letters: D hidden, E experts, I inner of an expert, J = 2 I; C convolved channels, T taps, G heads of keys, H heads
// of values, K and V their sizes; M columns side by side, S states of a channel; of latents: H heads, P plain part of a
// query, V size of a value, L size of a latent, X = P + V.
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

// Attention by latents: nn/latent.h.
struct LatentForm {
  ops::LinearWeight q_down = {};  // makes what queries are made of; undefined: they are made of the token itself
  ops::LinearWeight q = {}, out = {};
  ops::LinearWeight kv_down = {};  // the latent, then the rotated part of keys
  at::Tensor q_norm = {}, kv_norm = {};  // of latents; the former undefined where q_down is
  at::Tensor expand_HXL = {};            // of each head what makes plain keys, then values
  std::int64_t heads = 1, plain = 0, rotated = 0, values = 0, latent = 0;
  bool neighbours = false;  // are rotated together
  double eps = 1e-6;        // of both norms
  double scale = 1;         // of scores
  // Queries are multiplied with 1 + growth * log(1 + position / growth_length, rounded down); 0: they are not.
  double growth = 0;
  std::int64_t growth_length = 1;
  std::int64_t entry() const { return latent + rotated; }
  std::int64_t query_size() const { return plain + rotated; }
};

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
  ops::LinearWeight to_latent = {}, from_latent = {};  // around the experts, but not the shared one; undefined: none
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
    convolution,  // none but the convolution's: what it reads is gated, and so is its result
    channels      // nn::selective_scan, gated: `in` makes what is convolved, then the gate
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
  double step_scale = 1;                 // of delta: beta is multiplied with it
  at::Tensor scale_M = {};  // fp32 (fp64): what the first products give is multiplied with; undefined: none
  enum class NormOf { none, gated, then_gated } norm_of = NormOf::then_gated;
  at::Tensor norm = {};  // [V] of delta, [H V] of states
  double eps = 1e-6;
  std::int64_t norm_groups = 1;  // of states
  // Of channels, which have key_size states each; rate_SC is negative, and skip_H is of channels. What is convolved
  // makes steps (as `rank` numbers), and what writes and reads states; each is brought to a mean square of 1 where
  // is_selection_normed, times a weight where that is defined.
  ops::LinearWeight selection = {}, to_steps = {};
  at::Tensor rate_SC = {}, step_norm = {}, write_norm = {}, read_norm = {};
  bool is_selection_normed = false;
  std::int64_t rank = 0;
};

}  // namespace hone::nn
