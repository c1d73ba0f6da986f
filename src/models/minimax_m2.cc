// MiniMax-M2 (MiniMax, 2025): queries and keys are normed, all heads together, and part of each head is rotated;
// sigmoids, corrected for the choice, give a token its experts.
#include <fmt/format.h>

#include <algorithm>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/local_experts.h"
#include "models/routed_model.h"

namespace hone::models {
namespace {

struct MinimaxM2Config : LocalExpertKeys<LlamaConfig> {
  using Base = LocalExpertKeys<LlamaConfig>;
  double router_jitter_noise = 0, router_bias_update_rate = 0;
  std::optional<std::int64_t> rotary_dim, shared_intermediate_size, num_mtp_modules, mtp_transformer_layers,
      mlp_intermediate_size;
  std::optional<std::string> scoring_func, qk_norm_type, shared_moe_mode;
  std::optional<bool> use_qk_norm, use_routing_bias, use_mtp;
  std::optional<std::vector<std::int64_t>> attn_type_list;
  std::optional<double> layernorm_full_attention_beta, layernorm_linear_attention_beta, layernorm_mlp_beta;

  static constexpr auto fields() {
    using C = MinimaxM2Config;
    constexpr const char *nothing = "No effect, in transformers as here.", *only_true = "Only true.";
    return std::tuple_cat(
        Base::fields(),
        std::tuple{
            field("router_jitter_noise", &C::router_jitter_noise, "Noise on what the router reads; only 0."),
            field("router_bias_update_rate", &C::router_bias_update_rate,
                  "hone's own: after each update the e_score_correction_bias of an expert rises by this if it had "
                  "fewer tokens than the mean, and falls if it had more (arXiv:2412.19437). 0: it stays.",
                  {.low = 0, .high = 1}),
            field("rotary_dim", &C::rotary_dim, "What of a head is rotated: partial_rotary_factor in numbers.",
                  {.low = 2, .high = 65536}),
            field("scoring_func", &C::scoring_func, "Only sigmoid."), field("use_qk_norm", &C::use_qk_norm, only_true),
            field("qk_norm_type", &C::qk_norm_type, "Only per_layer: of all heads together."),
            field("use_routing_bias", &C::use_routing_bias, only_true),
            field("attn_type_list", &C::attn_type_list, "Only 1 for each layer: attention.", {.low = 0, .high = 1}),
            field("shared_intermediate_size", &C::shared_intermediate_size, "Only 0: no shared expert."),
            field("shared_moe_mode", &C::shared_moe_mode, nothing), field("use_mtp", &C::use_mtp, nothing),
            field("num_mtp_modules", &C::num_mtp_modules, nothing),
            field("mtp_transformer_layers", &C::mtp_transformer_layers, nothing),
            field("mlp_intermediate_size", &C::mlp_intermediate_size, nothing),
            field("layernorm_full_attention_beta", &C::layernorm_full_attention_beta, nothing),
            field("layernorm_linear_attention_beta", &C::layernorm_linear_attention_beta, nothing),
            field("layernorm_mlp_beta", &C::layernorm_mlp_beta, nothing)});
  }
  void validate(Problems& problems) const;
};

// Keys that say what is so anyhow.
void check_minimax_keys(const MinimaxM2Config& c, Problems& problems) {
  const auto text = [&](const char* key, const std::optional<std::string>& given, const char* known) {
    problems.require(given.value_or(known) == known, key,
                     fmt::format("got \"{}\", expected {}", given.value_or(""), known));
  };
  text("scoring_func", c.scoring_func, "sigmoid"), text("qk_norm_type", c.qk_norm_type, "per_layer");
  const char* reason = "got false, expected true, as transformers has it";
  problems.require(c.use_qk_norm.value_or(true), "use_qk_norm", reason);
  problems.require(c.use_routing_bias.value_or(true), "use_routing_bias", reason);
  const std::int64_t shared = c.shared_intermediate_size.value_or(0);
  problems.require(shared == 0, "shared_intermediate_size", fmt::format("got {}, expected 0", shared));
  problems.require(c.router_jitter_noise == 0, "router_jitter_noise", "got a number above 0, expected 0");
  const auto types = c.attn_type_list.value_or(std::vector<std::int64_t>());
  problems.require(std::count(types.begin(), types.end(), 1) == std::ssize(types), "attn_type_list",
                   "got a 0, expected 1 for each layer: layers with linear attention are not there");
}

// Published files say how much of a head is rotated in a key of their own, which transformers reads where the usual one
// is absent.
MinimaxM2Config with_share_of_head(const MinimaxM2Config& given) {
  MinimaxM2Config c = given;
  const auto head = static_cast<double>(c.head_dim.value_or(family_of(c.model_type)->head_size));
  if (c.rotary_dim && !c.partial_rotary_factor) c.partial_rotary_factor = static_cast<double>(*c.rotary_dim) / head;
  return c;
}

RoutedShape resolve(const MinimaxM2Config& given, Problems& problems) {
  RoutedShape s;
  const MinimaxM2Config c = with_share_of_head(given);
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  check_minimax_keys(c, problems);
  const LocalExperts experts = read_local_experts(c, {.count = 256, .per_token = 8}, s, problems);
  s.mlp_name = "block_sparse_moe";
  s.experts = local_mlp(experts, s), s.balance = experts.balance;
  s.experts.router = "";
  s.experts.by_groups = nn::GroupedRouter::Options{.rule = {.score = ops::GroupedRule::Score::sigmoid,
                                                            .per_token = experts.per_token,
                                                            .normalise = true,
                                                            .floor = 0},
                                                   .corrected = true,
                                                   .correction_rate = c.router_bias_update_rate,
                                                   .balances = experts.balance > 0,
                                                   .weight = "gate.weight"};
  return s;
}

void MinimaxM2Config::validate(Problems& problems) const { resolve(*this, problems); }

class MinimaxM2 final : public RoutedModel<> {
 public:
  MinimaxM2(const MinimaxM2Config& config, const HeadRequest& head)
      : RoutedModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    const MinimaxM2Config& c = config_;
    config::Node node = to_hf_config(c, s, dtype());
    write_local_experts(c, {s.experts.experts, s.experts.per_token}, node);
    const auto keep = [&](const char* key, const auto& given) {
      if (given) node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(*given)>>::write(*given);
    };
    // What others read: vLLM rotates by rotary_dim.
    keep("rotary_dim", c.rotary_dim), keep("scoring_func", c.scoring_func), keep("use_qk_norm", c.use_qk_norm);
    keep("qk_norm_type", c.qk_norm_type), keep("use_routing_bias", c.use_routing_bias);
    keep("attn_type_list", c.attn_type_list);
    if (const double share = s.rope.partial_rotary_factor; share != 1)
      node.at_or_add("rope_parameters").at_or_add("partial_rotary_factor") = nn::hf_float(share);
    node.at_or_add("router_jitter_noise") = nn::hf_float(c.router_jitter_noise);
    if (c.router_bias_update_rate > 0)
      node.at_or_add("router_bias_update_rate") = nn::hf_float(c.router_bias_update_rate);
    sort_keys(node);
    return node;
  }

 private:
  MinimaxM2Config config_;
};

}  // namespace

void register_minimax_m2(Registries& hone) {
  hone.models.add<MinimaxM2, MinimaxM2Config>("minimax_m2", "MiniMax-M2: corrected sigmoids choose experts.");
}

}  // namespace hone::models
