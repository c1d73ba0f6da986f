// Qwen3-MoE's config.json: Llama's keys and those of the experts.
#include "models/qwen3_moe_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "hone/config_read.h"
#include "models/check_parameters.h"

namespace hone::models {
namespace {

using config::Node;

void read_layers(const Qwen3MoeConfig& c, Qwen3MoeShape& s, Problems& problems) {
  s.sparse_step = c.decoder_sparse_step.value_or(1);
  for (std::int64_t i = 0; i < std::min<std::int64_t>(s.layers, 10000); ++i)
    s.sparse.push_back((i + 1) % s.sparse_step == 0);
  const auto dense = c.mlp_only_layers.value_or(std::vector<std::int64_t>());
  for (std::size_t i = 0; i < dense.size(); ++i) {
    const bool there = dense[i] < std::ssize(s.sparse);
    problems.require(there, fmt::format("mlp_only_layers.{}", i),
                     fmt::format("got {}, expected a layer from 0 to {}", dense[i], s.layers - 1));
    if (there) s.sparse[static_cast<std::size_t>(dense[i])] = false;
  }
}

void read_experts(const Qwen3MoeConfig& c, Qwen3MoeShape& s, Problems& problems) {
  s.experts = c.num_experts.value_or(c.num_local_experts.value_or(128));
  if (c.num_experts && c.num_local_experts && *c.num_experts != *c.num_local_experts)
    problems.add("num_experts", fmt::format("got {}, and num_local_experts {}: two names of the same number",
                                            *c.num_experts, *c.num_local_experts));
  s.experts_per_token = c.num_experts_per_tok.value_or(8);
  problems.require(
      s.experts_per_token <= s.experts, "num_experts_per_tok",
      fmt::format("got {}, expected at most as many as there are experts ({})", s.experts_per_token, s.experts));
  s.expert_inner = c.moe_intermediate_size.value_or(768);
  s.normalise = c.norm_topk_prob;
  s.balance = c.output_router_logits ? c.router_aux_loss_coef : 0;
  const auto experts = static_cast<double>(std::count(s.sparse.begin(), s.sparse.end(), true) * s.experts);
  check_parameters(3.0 * experts * static_cast<double>(s.hidden) * static_cast<double>(s.expert_inner), "num_experts",
                   problems);
  problems.require(experts <= 1e6, "num_experts",
                   fmt::format("{} in all layers together, expected at most 1000000", experts));
}

// Keys of the Llama family that this one does not have.
void refuse_others(const Qwen3MoeConfig& c, Problems& problems) {
  problems.require(!c.layer_types, "layer_types",
                   "qwen3_moe has no such key: all its layers slide or none does, as use_sliding_window says");
  problems.require(!c.mlp_bias, "mlp_bias", "qwen3_moe has no such key");
  problems.require(!c.pretraining_tp, "pretraining_tp", "qwen3_moe has no such key");
}

}  // namespace

Qwen3MoeShape resolve(const Qwen3MoeConfig& c, Problems& problems) {
  Qwen3MoeShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_others(c, problems);
  read_layers(c, s, problems);
  read_experts(c, s, problems);
  return s;
}

void Qwen3MoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const Qwen3MoeConfig& c, const Qwen3MoeShape& s, const std::string& dtype) {
  Node node = to_hf_config(static_cast<const LlamaConfig&>(c), s, dtype);
  const auto put = [&](const char* key, const auto& value) {
    node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
  };
  put("decoder_sparse_step", s.sparse_step);
  put("mlp_only_layers", c.mlp_only_layers.value_or(std::vector<std::int64_t>()));
  put("moe_intermediate_size", s.expert_inner);
  put("norm_topk_prob", s.normalise);
  put("num_experts_per_tok", s.experts_per_token);
  put("num_local_experts", s.experts);
  put("output_router_logits", c.output_router_logits);
  put("router_aux_loss_coef", c.router_aux_loss_coef);
  sort_keys(node);
  return node;
}

}  // namespace hone::models
