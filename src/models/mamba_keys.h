// What config.json says of layers with state spaces, beside the keys of B, and the plain numbers that it means.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hone/config_read.h"
#include "models/llama_config.h"
#include "nn/state_space.h"

namespace hone::models {

template <class B>
struct MambaKeys : B {
  using Base = B;
  std::int64_t mamba_n_heads = 128, mamba_n_groups = 1, mamba_d_state = 256, mamba_d_conv = 4, mamba_expand = 2,
               mamba_chunk_size = 256;
  config::Open mamba_d_head{config::Node::scalar("auto")}, time_step_limit;
  bool mamba_conv_bias = true, mamba_proj_bias = false;

  static constexpr auto fields() {
    using C = MambaKeys;
    constexpr config::Range size{.low = 1, .high = 65536};
    return std::tuple_cat(
        B::fields(),
        std::tuple{
            field("mamba_n_heads", &C::mamba_n_heads, "Heads of a state space (Mamba-2), with a state each.", size),
            field("mamba_n_groups", &C::mamba_n_groups,
                  "Groups of heads that share what is written and read by; divides the heads.", size),
            field("mamba_d_state", &C::mamba_d_state, "Size of a state: what is written and read by has it.", size),
            field("mamba_d_head", &C::mamba_d_head,
                  "Size of a head; auto: mamba_expand * hidden_size / mamba_n_heads, which it must be."),
            field("mamba_d_conv", &C::mamba_d_conv, "Tokens that the convolution before a state reads.",
                  {.low = 2, .high = 64}),
            field("mamba_expand", &C::mamba_expand, "Width of all heads together, in hidden_size.", size),
            field("mamba_chunk_size", &C::mamba_chunk_size,
                  "No effect: how many tokens are computed at a time changes no result.", size),
            field("mamba_conv_bias", &C::mamba_conv_bias, "Bias of the convolution."),
            field("mamba_proj_bias", &C::mamba_proj_bias, "Biases of the products around the state."),
            field("time_step_limit", &C::time_step_limit,
                  "Least and most of the steps by which tokens are written; absent: 0 and infinity.")});
  }
};

// The state spaces of a hybrid's layers.
struct MambaShape {
  nn::StateSpace::Options mamba;
  std::vector<bool> remembers;  // per layer: has a state, not attention
  MemoryLayer memory() const { return mamba.memory(); }
};

// Two numbers, the second one perhaps infinite; null: 0 and infinity.
struct StepLimits {
  double least = 0, most = std::numeric_limits<double>::infinity();
};
StepLimits read_step_limits(const config::Open& given, Problems& problems);
config::Node write_step_limits(const StepLimits& limits);

// A number of the key `key`, where "auto" stands for `otherwise`.
std::int64_t read_or_auto(const config::Open& given, std::int64_t otherwise, const char* key, Problems& problems);
// The size of a head.
std::int64_t read_head_size(const config::Open& given, std::int64_t otherwise, Problems& problems);

// Of layer_types as transformers 5 and 4 name them; absent: `otherwise`.
std::vector<bool> read_remembering(const std::optional<std::vector<std::string>>& types, bool otherwise,
                                   std::int64_t layers, Problems& problems);
config::Node write_layer_types(const std::vector<bool>& remembers);

// REQUIRES: s.remembers is known.
void check_state_spaces(const MambaShape& s, std::int64_t inner, const char* heads_key, Problems& problems);

// c: MambaKeys of something; inner: the width of all heads together.
template <class C>
void read_mamba(const C& c, std::int64_t inner, const LlamaShape& llama, MambaShape& s, Problems& problems) {
  const StepLimits limits = read_step_limits(c.time_step_limit, problems);
  s.mamba = {.hidden = llama.hidden,
             .heads = c.mamba_n_heads,
             .head_size = read_head_size(c.mamba_d_head, inner / c.mamba_n_heads, problems),
             .groups = c.mamba_n_groups,
             .state_size = c.mamba_d_state,
             .taps = c.mamba_d_conv,
             .conv_bias = c.mamba_conv_bias,
             .in_bias = c.mamba_proj_bias,
             .out_bias = c.mamba_proj_bias,
             .least_step = limits.least,
             .most_step = limits.most,
             .eps = llama.eps,
             .std = llama.std};
  check_state_spaces(s, inner, "mamba_n_heads", problems);
  problems.require(llama.activation_name == "silu" || llama.activation_name == "swish", "hidden_act",
                   "expected silu, which these models have");
}

template <class C>
void write_mamba(const C& c, const MambaShape& s, config::Node& node) {
  const auto put = [&](const char* key, auto value) {
    node.at_or_add(key) = config::Values<decltype(value)>::write(value);
  };
  put("mamba_chunk_size", c.mamba_chunk_size), put("mamba_d_state", c.mamba_d_state);
  put("mamba_d_conv", c.mamba_d_conv), put("mamba_d_head", s.mamba.head_size), put("mamba_expand", c.mamba_expand);
  put("mamba_n_groups", c.mamba_n_groups), put("mamba_n_heads", c.mamba_n_heads);
  put("mamba_conv_bias", c.mamba_conv_bias), put("mamba_proj_bias", c.mamba_proj_bias);
  node.at_or_add("time_step_limit") = write_step_limits({s.mamba.least_step, s.mamba.most_step});
}

}  // namespace hone::models
