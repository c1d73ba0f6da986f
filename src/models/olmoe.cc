// OLMoE (Muennighoff et al., 2024, arXiv:2409.02060): Llama whose queries and keys are normed, all heads together, and
// may be cut with the values, and whose layers have routed experts in place of the MLP. FlexOlmo (Shi et al., 2025,
// arXiv:2507.07024) has its experts and OLMo 2's norms, of what attention and experts give.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/check_parameters.h"
#include "models/post_norm_block.h"
#include "models/routed_model.h"

namespace hone::models {
namespace {

struct OlmoeConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<std::int64_t> num_experts, num_experts_per_tok;
  bool norm_topk_prob = false, output_router_logits = false;
  double router_aux_loss_coef = 0.01;
  std::optional<double> clip_qkv;

  static constexpr auto fields() {
    using C = OlmoeConfig;
    constexpr config::Range count{.low = 1, .high = 65536};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("num_experts", &C::num_experts, "Experts of a layer; default 64, 7 in flex_olmo.", count),
            field("num_experts_per_tok", &C::num_experts_per_tok,
                  "Experts that a token goes to; default 8, 5 in flex_olmo.", count),
            field("norm_topk_prob", &C::norm_topk_prob, "Make the weights of a token's experts sum to 1."),
            field("output_router_logits", &C::output_router_logits, "Whether training adds the balancing loss."),
            field("router_aux_loss_coef", &C::router_aux_loss_coef, "What the balancing loss is multiplied by.",
                  at_least(0)),
            field("clip_qkv", &C::clip_qkv, "Queries, keys and values are cut to this on both sides; null = not.",
                  {.low = 1e-6, .high = 1e9})});
  }
  void validate(Problems& problems) const;
};

bool is_flexible(const OlmoeConfig& c) { return c.model_type == "flex_olmo"; }

void check_experts(const nn::RoutedMlp::Options& o, const LlamaShape& s, Problems& problems) {
  check_experts_per_token(o.per_token, o.experts, problems);
  const double experts = static_cast<double>(s.layers) * static_cast<double>(o.experts);
  check_all_experts(experts, "num_experts", problems);
  check_parameters(3 * experts * static_cast<double>(s.hidden) * static_cast<double>(s.inner), "num_experts", problems);
}

RoutedShape resolve(const OlmoeConfig& c, Problems& problems) {
  RoutedShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  refuse_keys(c.model_type, {{"clip_qkv", is_flexible(c) && c.clip_qkv}}, problems);
  problems.require(is_flexible(c) || s.head_size * s.heads == s.hidden, "head_dim",
                   fmt::format("got {}, expected hidden_size / num_attention_heads ({}), as transformers has it",
                               s.head_size, s.hidden / s.heads));
  s.clip = c.clip_qkv.value_or(0);
  s.balance = c.output_router_logits ? c.router_aux_loss_coef : 0;
  s.experts = {.hidden = s.hidden,
               .inner = s.inner,
               .experts = c.num_experts.value_or(is_flexible(c) ? 7 : 64),
               .per_token = c.num_experts_per_tok.value_or(is_flexible(c) ? 5 : 8),
               .normalise = c.norm_topk_prob,
               .activation = s.activation,
               .std = s.std};
  check_experts(s.experts, s, problems);
  return s;
}

void OlmoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

template <class B>
class Olmoe final : public RoutedModel<B> {
  using Base = RoutedModel<B>;
  using Base::s;

 public:
  Olmoe(const OlmoeConfig& config, const HeadRequest& head) : Base(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, this->dtype());
    const auto put = [&](const char* key, const auto& value) {
      node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
    };
    put("num_experts", s.experts.experts), put("num_experts_per_tok", s.experts.per_token);
    put("norm_topk_prob", config_.norm_topk_prob), put("output_router_logits", config_.output_router_logits);
    node.at_or_add("router_aux_loss_coef") = nn::hf_float(config_.router_aux_loss_coef);
    if (!is_flexible(config_))
      node.at_or_add("clip_qkv") = config_.clip_qkv ? nn::hf_float(*config_.clip_qkv) : config::Node();
    sort_keys(node);
    return node;
  }

 private:
  OlmoeConfig config_;
};

using PreNormOlmoe = Olmoe<PreNormBlock<RoutedShape, nn::RoutedMlp>>;
using PostNormOlmoe = Olmoe<PostNormBlock<RoutedShape, nn::RoutedMlp>>;

}  // namespace

void register_olmoe(Registries& hone) {
  hone.models.add<PreNormOlmoe, OlmoeConfig>("olmoe", "OLMoE: routed experts, and norms of queries and keys.");
  hone.models.add<PostNormOlmoe, OlmoeConfig>("flex_olmo", "FlexOlmo: OLMoE's experts, OLMo 2's norms.");
}

}  // namespace hone::models
