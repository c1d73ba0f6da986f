// What config.json says of routed experts, beside the keys of B, and the plain numbers that it means.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "hone/config_read.h"
#include "models/balanced_model.h"
#include "models/check_parameters.h"
#include "models/llama_config.h"
#include "nn/experts.h"

namespace hone::models {

template <class B>
struct ExpertKeys : B {
  using Base = B;
  std::optional<std::int64_t> num_experts, num_experts_per_tok, moe_intermediate_size, shared_expert_intermediate_size,
      decoder_sparse_step;
  std::optional<std::vector<std::int64_t>> mlp_only_layers;
  std::optional<bool> norm_topk_prob;
  bool output_router_logits = false;
  double router_aux_loss_coef = 0.001;

  static constexpr auto fields() {
    using C = ExpertKeys;
    constexpr config::Range count{.low = 1, .high = 65536}, size{.low = 1, .high = 2147483647};
    return std::tuple_cat(
        B::fields(),
        std::tuple{
            field("num_experts", &C::num_experts,
                  "Experts of a layer; default 128 in qwen3_moe, 60 in qwen2_moe and qwen3_vl_moe, 64 in mellum, 512 "
                  "in qwen3_next, 256 in qwen3_5_moe_text.",
                  count),
            field("num_experts_per_tok", &C::num_experts_per_tok,
                  "Experts that a token goes to; default 8, 4 in qwen2_moe and qwen3_vl_moe, 10 in qwen3_next.", count),
            field("moe_intermediate_size", &C::moe_intermediate_size,
                  "Width inside an expert; default 768 in qwen3_moe, 1408 in qwen2_moe and qwen3_vl_moe, 896 in "
                  "mellum, else 512.",
                  size),
            field("shared_expert_intermediate_size", &C::shared_expert_intermediate_size,
                  "Width inside the expert that every token goes to; default 5632 in qwen2_moe, 512 in qwen3_next and "
                  "qwen3_5_moe_text, which alone have one.", size),
            field("decoder_sparse_step", &C::decoder_sparse_step,
                  "Every how manieth layer has experts; 1 = all. The others have an MLP of intermediate_size.", size),
            field("mlp_only_layers", &C::mlp_only_layers, "Layers, from 0, that have an MLP all the same.",
                  {.low = 0, .high = 10000}),
            field("norm_topk_prob", &C::norm_topk_prob, "Make the weights of a token's experts sum to 1."),
            field("output_router_logits", &C::output_router_logits, "Whether training adds the balancing loss."),
            field("router_aux_loss_coef", &C::router_aux_loss_coef, "What the balancing loss is multiplied by.",
                  at_least(0))});
  }
};

// What absent keys mean in a family.
struct ExpertDefaults {
  std::int64_t experts, per_token, inner;
  std::int64_t shared_inner = 0;  // 0: the family has no shared expert
  bool normalise = false;
  bool may_be_dense = true;  // some layers may have an MLP instead
};

struct ExpertShape {
  std::int64_t experts = 0, experts_per_token = 0, expert_inner = 0, shared_inner = 0, sparse_step = 1;
  std::vector<bool> sparse;  // per layer: has experts
  bool normalise = false;
  double balance = 0;  // coefficient of the balancing loss; 0: none

  Balancing balancing() const { return {experts_per_token, balance}; }
  nn::RoutedMlp::Options options(const LlamaShape& s) const {
    return {.hidden = s.hidden,
            .inner = expert_inner,
            .experts = experts,
            .per_token = experts_per_token,
            .shared_inner = shared_inner,
            .normalise = normalise,
            .activation = s.activation,
            .std = s.std};
  }
};

template <class C>
void read_sparse_layers(const C& c, std::int64_t layers, ExpertShape& s, Problems& problems) {
  s.sparse_step = c.decoder_sparse_step.value_or(1);
  for (std::int64_t i = 0; i < std::min<std::int64_t>(layers, 10000); ++i)
    s.sparse.push_back((i + 1) % s.sparse_step == 0);
  const auto dense = c.mlp_only_layers.value_or(std::vector<std::int64_t>());
  for (std::size_t i = 0; i < dense.size(); ++i) {
    const bool there = dense[i] < std::ssize(s.sparse);
    problems.require(there, fmt::format("mlp_only_layers.{}", i),
                     fmt::format("got {}, expected a layer from 0 to {}", dense[i], layers - 1));
    if (there) s.sparse[static_cast<std::size_t>(dense[i])] = false;
  }
}

// c: ExpertKeys of something.
template <class C>
void read_experts(const C& c, const ExpertDefaults& defaults, const LlamaShape& llama, ExpertShape& s,
                  Problems& problems) {
  if (defaults.may_be_dense)
    read_sparse_layers(c, llama.layers, s, problems);
  else
    s.sparse.assign(static_cast<std::size_t>(std::min<std::int64_t>(llama.layers, 10000)), true);
  s.experts = c.num_experts.value_or(defaults.experts);
  s.experts_per_token = c.num_experts_per_tok.value_or(defaults.per_token);
  check_experts_per_token(s.experts_per_token, s.experts, problems);
  s.expert_inner = c.moe_intermediate_size.value_or(defaults.inner);
  s.shared_inner = c.shared_expert_intermediate_size.value_or(defaults.shared_inner);
  s.normalise = c.norm_topk_prob.value_or(defaults.normalise);
  s.balance = c.output_router_logits ? c.router_aux_loss_coef : 0;
  refuse_keys(c.model_type,
              {{"shared_expert_intermediate_size", defaults.shared_inner == 0 && c.shared_expert_intermediate_size},
               {"norm_topk_prob", !defaults.may_be_dense && !s.normalise},
               {"decoder_sparse_step", !defaults.may_be_dense && c.decoder_sparse_step.value_or(1) != 1},
               {"mlp_only_layers", !defaults.may_be_dense && c.mlp_only_layers && !c.mlp_only_layers->empty()}},
              problems);
  const auto layers = static_cast<double>(std::count(s.sparse.begin(), s.sparse.end(), true));
  const double experts = layers * static_cast<double>(s.experts);
  check_parameters(3.0 * static_cast<double>(llama.hidden) *
                       (experts * static_cast<double>(s.expert_inner) + layers * static_cast<double>(s.shared_inner)),
                   "num_experts", problems);
  check_all_experts(experts, "num_experts", problems);
}

template <class C>
void write_experts(const C& c, const ExpertDefaults& defaults, const ExpertShape& s, const char* name_of_count,
                   config::Node& node) {
  const auto put = [&](const char* key, const auto& value) {
    node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
  };
  if (defaults.may_be_dense) {
    put("decoder_sparse_step", s.sparse_step);
    put("mlp_only_layers", c.mlp_only_layers.value_or(std::vector<std::int64_t>()));
    put("norm_topk_prob", s.normalise);
  }
  put("moe_intermediate_size", s.expert_inner);
  if (defaults.shared_inner > 0) put("shared_expert_intermediate_size", s.shared_inner);
  put("num_experts_per_tok", s.experts_per_token);
  put(name_of_count, s.experts);
  put("output_router_logits", c.output_router_logits);
  put("router_aux_loss_coef", c.router_aux_loss_coef);
}

}  // namespace hone::models
