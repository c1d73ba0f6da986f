// What config.json says of routed experts that are chosen by groups and stand beside ungated shared ones, in DeepSeek's
// families and GLM's: beside Llama's keys, and the plain numbers that it means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config_read.h"
#include "models/balanced_model.h"
#include "models/llama_config.h"
#include "nn/experts.h"

namespace hone::models {

struct GroupedConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<std::int64_t> n_routed_experts, num_experts_per_tok, moe_intermediate_size, n_shared_experts, n_group,
      topk_group, first_k_dense_replace, moe_layer_freq, num_nextn_predict_layers, ep_size;
  std::optional<std::vector<std::string>> mlp_layer_types;
  std::optional<std::string> topk_method, scoring_func;
  std::optional<bool> norm_topk_prob;
  std::optional<double> routed_scaling_factor, aux_loss_alpha;
  std::optional<bool> seq_aux;
  bool output_router_logits = false;
  double router_bias_update_rate = 0;

  static constexpr auto fields() {
    using C = GroupedConfig;
    constexpr config::Range count{.low = 1, .high = 65536}, size{.low = 1, .high = 2147483647};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field(
                "n_routed_experts", &C::n_routed_experts,
                "Experts of a layer; default 64 in deepseek_v2 and glm4_moe_lite, 256 in deepseek_v3, 128 in glm4_moe, "
                "solar_open and mistral4; dots1 has none.",
                count),
            field("num_experts_per_tok", &C::num_experts_per_tok,
                  "Experts that a token goes to; default 8, 4 in glm4_moe_lite and mistral4; deepseek_v2 and dots1 "
                  "have none.",
                  count),
            field("moe_intermediate_size", &C::moe_intermediate_size, "Width inside an expert.", size),
            field(
                "n_shared_experts", &C::n_shared_experts,
                "How many times as wide as an expert the MLP is that every token goes to; default 1, 2 in deepseek_v2; "
                "dots1 has none.",
                count),
            field("n_group", &C::n_group, "Groups that experts lie in.", count),
            field("topk_group", &C::topk_group, "Groups that a token's experts are chosen from.", count),
            field("topk_method", &C::topk_method,
                  "deepseek_v2: greedy, or group_limited_greedy; the others know noaux_tc alone."),
            field("scoring_func", &C::scoring_func,
                  "softmax in deepseek_v2 and mistral4, sigmoid in the others (dots1's files call it noaux_tc)."),
            field("norm_topk_prob", &C::norm_topk_prob,
                  "Make the weights of a token's experts sum to 1; default true, false in dots1. No effect in "
                  "deepseek_v2."),
            field("routed_scaling_factor", &C::routed_scaling_factor,
                  "What these weights are multiplied by; default 1, 2.5 in deepseek_v3 and exaone_moe, 1.8 in "
                  "glm4_moe_lite.",
                  config::Range{.low = 1e-9, .high = 1e9}),
            field(
                "first_k_dense_replace", &C::first_k_dense_replace,
                "Layers that have an MLP instead, from the first one on; default 0 in deepseek_v2, dots1 and mistral4, "
                "3 in deepseek_v3, 1 in glm4_moe and exaone_moe.",
                at_least(0)),
            field("moe_layer_freq", &C::moe_layer_freq, "Must be 1: all other layers have experts."),
            field("mlp_layer_types", &C::mlp_layer_types,
                  "glm4_moe_lite, exaone_moe, hy_v3: sparse or dense for each layer; default: all but the first are "
                  "sparse."),
            field("num_nextn_predict_layers", &C::num_nextn_predict_layers,
                  "Layers of the folder behind the last one, which guess further tokens: they are passed over.",
                  at_least(0)),
            field("aux_loss_alpha", &C::aux_loss_alpha,
                  "No effect: there is no balancing loss, in transformers as here."),
            field("seq_aux", &C::seq_aux, "No effect, likewise."), field("ep_size", &C::ep_size, "No effect."),
            field("output_router_logits", &C::output_router_logits,
                  "No effect: there is no balancing loss, in transformers as here."),
            field(
                "router_bias_update_rate", &C::router_bias_update_rate,
                "hone's own: after each update the e_score_correction_bias of an expert rises by this if it had fewer "
                "tokens than the mean, and falls if it had more (arXiv:2412.19437; 0.001 there). 0: it stays.",
                config::Range{.low = 0, .high = 1})});
  }
};

struct GroupedExperts {
  std::int64_t count = 0, per_token = 0, inner = 0, shared = 0;
  std::vector<bool> sparse;  // per layer
  std::int64_t guessing = 0;  // layers of a folder behind the last one
  nn::GroupedRouter::Options router;
  std::vector<std::int64_t> per_token_of;  // each layer, where they differ; empty: they do not
  double balance = 0;                      // coefficient of the balancing loss; 0: none
  bool shared_bias = false;
  const char *router_name = "gate", *shared_name = "shared_experts";

  nn::RoutedMlp::Options options(const LlamaShape& s, std::int64_t layer) const {
    nn::RoutedMlp::Options made{.hidden = s.hidden,
                                .inner = inner,
                                .experts = count,
                                .per_token = per_token,
                                .shared_inner = shared * inner,
                                .shared = shared_name,
                                .shared_is_gated = false,
                                .shared_bias = shared_bias,
                                .by_groups = router,
                                .router = router_name,
                                .activation = s.activation,
                                .std = s.std};
    if (!per_token_of.empty()) made.per_token = per_token_of[static_cast<std::size_t>(layer)];
    made.by_groups->rule.per_token = made.per_token;
    return made;
  }
};

struct GroupedShape : LlamaShape {
  GroupedExperts experts;
  Balancing balancing() const { return {experts.per_token, experts.balance}; }
};
GroupedExperts read_grouped_experts(const GroupedConfig& config, const LlamaShape& llama, Problems& problems);
// How many experts a token may choose among; experts_key: what config.json calls their number.
void check_groups(const GroupedExperts& experts, const char* experts_key, Problems& problems);
void write_grouped_experts(const GroupedConfig& config, const GroupedExperts& experts, config::Node& node);
// Whether a tensor is of one of the layers behind the model's last one that guess further tokens.
bool is_of_guessing_layer(const std::string& tensor, const GroupedShape& shape);

}  // namespace hone::models
