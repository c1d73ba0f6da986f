// OLMoE (Muennighoff et al., 2024, arXiv:2409.02060): Llama whose queries and keys are normed, all heads together, and
// may be cut with the values, and whose layers have routed experts in place of the MLP.
//
// Letters in tensor names: N tokens, D hidden.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/check_parameters.h"
#include "models/llama_model.h"
#include "models/pre_norm_block.h"
#include "nn/experts.h"

namespace hone::models {
namespace {

struct OlmoeConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::int64_t num_experts = 64, num_experts_per_tok = 8;
  bool norm_topk_prob = false, output_router_logits = false;
  double router_aux_loss_coef = 0.01;
  std::optional<double> clip_qkv;

  static constexpr auto fields() {
    using C = OlmoeConfig;
    constexpr config::Range count{.low = 1, .high = 65536};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("num_experts", &C::num_experts, "Experts of a layer.", count),
            field("num_experts_per_tok", &C::num_experts_per_tok, "Experts that a token goes to.", count),
            field("norm_topk_prob", &C::norm_topk_prob, "Make the weights of a token's experts sum to 1."),
            field("output_router_logits", &C::output_router_logits, "Whether training adds the balancing loss."),
            field("router_aux_loss_coef", &C::router_aux_loss_coef, "What the balancing loss is multiplied by.",
                  at_least(0)),
            field("clip_qkv", &C::clip_qkv, "Queries, keys and values are cut to this on both sides; null = not.",
                  {.low = 1e-6, .high = 1e9})});
  }
  void validate(Problems& problems) const;
};

struct OlmoeShape : LlamaShape {
  nn::RoutedMlp::Options experts;
  const nn::RoutedMlp::Options& mlp_options() const { return experts; }
  double balance = 0;  // coefficient of the balancing loss; 0: none
};

void check_experts(const OlmoeConfig& c, const LlamaShape& s, Problems& problems) {
  check_experts_per_token(c.num_experts_per_tok, c.num_experts, problems);
  const double experts = static_cast<double>(s.layers) * static_cast<double>(c.num_experts);
  check_all_experts(experts, "num_experts", problems);
  check_parameters(3 * experts * static_cast<double>(s.hidden) * static_cast<double>(s.inner), "num_experts", problems);
}

OlmoeShape resolve(const OlmoeConfig& c, Problems& problems) {
  OlmoeShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  problems.require(s.head_size * s.heads == s.hidden, "head_dim",
                   fmt::format("got {}, expected hidden_size / num_attention_heads ({}), as transformers has it",
                               s.head_size, s.hidden / s.heads));
  check_experts(c, s, problems);
  s.clip = c.clip_qkv.value_or(0);
  s.balance = c.output_router_logits ? c.router_aux_loss_coef : 0;
  s.experts = {.hidden = s.hidden,
               .inner = s.inner,
               .experts = c.num_experts,
               .per_token = c.num_experts_per_tok,
               .normalise = c.norm_topk_prob,
               .activation = s.activation,
               .std = s.std};
  return s;
}

void OlmoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

class Olmoe final : public LlamaModel<PreNormBlock<OlmoeShape, nn::RoutedMlp>, OlmoeShape> {
 public:
  Olmoe(const OlmoeConfig& config, const HeadRequest& head) : LlamaModel(shape_of(config, head)), config_(config) {}

  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    if (pass.training) nn::balance(pass, s.experts.per_token, s.balance);
    return LlamaModel::finish(x_1ND, pass);
  }
  bool shares_prefixes() const override { return false; }  // the router's loss counts each token of each document
  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    const auto put = [&](const char* key, const auto& value) {
      node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
    };
    put("num_experts", config_.num_experts), put("num_experts_per_tok", config_.num_experts_per_tok);
    put("norm_topk_prob", config_.norm_topk_prob), put("output_router_logits", config_.output_router_logits);
    node.at_or_add("router_aux_loss_coef") = nn::hf_float(config_.router_aux_loss_coef);
    node.at_or_add("clip_qkv") = config_.clip_qkv ? nn::hf_float(*config_.clip_qkv) : config::Node();
    sort_keys(node);
    return node;
  }

 private:
  OlmoeConfig config_;
};

}  // namespace

void register_olmoe(Registries& hone) {
  hone.models.add<Olmoe, OlmoeConfig>("olmoe", "OLMoE: routed experts, and norms of queries and keys.");
}

}  // namespace hone::models
