// What config.json of a Qwen3-MoE model may say beyond Llama's keys, and the plain numbers that it means.
#pragma once

#include "models/llama_config.h"

namespace hone::models {

struct Qwen3MoeConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<std::int64_t> num_experts, num_local_experts, num_experts_per_tok, moe_intermediate_size,
      decoder_sparse_step;
  std::optional<std::vector<std::int64_t>> mlp_only_layers;
  bool norm_topk_prob = false, output_router_logits = false;
  double router_aux_loss_coef = 0.001;

  static constexpr auto fields() {
    using C = Qwen3MoeConfig;
    constexpr config::Range count{.low = 1, .high = 65536}, size{.low = 1, .high = 2147483647};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("num_experts", &C::num_experts, "Experts of a layer; default 128.", count),
            field("num_local_experts", &C::num_local_experts, "The same, as transformers 5 writes it.", count),
            field("num_experts_per_tok", &C::num_experts_per_tok, "Experts that a token goes to; default 8.", count),
            field("moe_intermediate_size", &C::moe_intermediate_size, "Width inside an expert; default 768.", size),
            field("decoder_sparse_step", &C::decoder_sparse_step,
                  "Every how manieth layer has experts; 1 = all. The others have an MLP of intermediate_size.", size),
            field("mlp_only_layers", &C::mlp_only_layers, "Layers, from 0, that have an MLP all the same.",
                  {.low = 0, .high = 10000}),
            field("norm_topk_prob", &C::norm_topk_prob, "Make the weights of a token's experts sum to 1."),
            field("output_router_logits", &C::output_router_logits, "Whether training adds the balancing loss."),
            field("router_aux_loss_coef", &C::router_aux_loss_coef, "What the balancing loss is multiplied by.",
                  at_least(0))});
  }
  void validate(Problems& problems) const;
};

struct Qwen3MoeShape : LlamaShape {
  std::int64_t experts = 0, experts_per_token = 0, expert_inner = 0, sparse_step = 1;
  std::vector<bool> sparse;  // per layer: has experts
  bool normalise = false;
  double balance = 0;  // coefficient of the balancing loss; 0: none
};
Qwen3MoeShape resolve(const Qwen3MoeConfig& config, Problems& problems);

config::Node to_hf_config(const Qwen3MoeConfig& config, const Qwen3MoeShape& shape, const std::string& dtype);

}  // namespace hone::models
