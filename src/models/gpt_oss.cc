// gpt-oss (OpenAI, 2025, arXiv:2508.10925): Llama with biases, attention that may rest on a sink, a window in every
// other layer, and routed experts whose gates are cut.
//
// Letters in tensor names: N tokens, D hidden.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/balanced_model.h"
#include "models/llama_model.h"
#include "models/local_experts.h"
#include "models/pre_norm_block.h"
#include "nn/experts.h"
#include "nn/stacked_experts.h"

namespace hone::models {
namespace {

constexpr const char* kGptOssWindow = "128";  // when the key is absent

struct GptOssConfig : LocalExpertKeys<LlamaConfig> {
  using Base = LocalExpertKeys<LlamaConfig>;
  double swiglu_alpha = 1.702, swiglu_limit = 7;
  std::optional<std::int64_t> experts_per_token, initial_context_length;

  static constexpr auto fields() {
    using C = GptOssConfig;
    constexpr config::Range positive{.low = 1e-3, .high = 1e6};
    return std::tuple_cat(
        Base::fields(),
        std::tuple{field("swiglu_alpha", &C::swiglu_alpha, "What the gate is multiplied by in its sigmoid.", positive),
                   field("swiglu_limit", &C::swiglu_limit,
                         "Where the gate is cut from above, and the other half on both sides.", positive),
                   field("experts_per_token", &C::experts_per_token, "The same as num_experts_per_tok."),
                   field("initial_context_length", &C::initial_context_length,
                         "Has no effect, in transformers as here: rope_parameters says it.")});
  }
  void validate(Problems& problems) const;
};

struct GptOssShape : LlamaShape {
  LocalExperts experts;
  nn::StackedMlp::Options mlp;
  const nn::StackedMlp::Options& mlp_options() const { return mlp; }
  Balancing balancing() const { return {experts.per_token, experts.balance}; }
};

// What transformers takes for keys that are absent.
GptOssConfig completed(GptOssConfig c) {
  if (is_default(c.sliding_window)) c.sliding_window.node = config::Node::scalar(kGptOssWindow);
  if (!c.attention_bias) c.attention_bias = true;
  if (c.rope_parameters.node.is_null() && !has_rope_scaling(c)) {
    config::Node rope = config::Node::map();
    const auto put = [&](const char* key, const char* value) { rope.at_or_add(key) = config::Node::scalar(value); };
    put("rope_type", "yarn"), put("factor", "32.0"), put("beta_fast", "32.0"), put("beta_slow", "1.0");
    put("truncate", "false"), put("original_max_position_embeddings", "4096");
    c.rope_parameters.node = rope;
  }
  return c;
}

GptOssShape resolve(const GptOssConfig& given, Problems& problems) {
  const GptOssConfig c = completed(given);
  GptOssShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  problems.require(s.activation_name == "silu", "hidden_act", fmt::format("got {}, expected silu", s.activation_name));
  s.sinks = true;
  s.experts = read_local_experts(c, {.count = 128, .per_token = 4}, s, problems);
  problems.require(c.experts_per_token.value_or(s.experts.per_token) == s.experts.per_token, "experts_per_token",
                   "differs from num_experts_per_tok, which transformers reads alone");
  s.mlp = {.hidden = s.hidden,
           .inner = s.inner,
           .experts = s.experts.count,
           .per_token = s.experts.per_token,
           .gate = {.alpha = c.swiglu_alpha, .limit = c.swiglu_limit},
           .std = s.std};
  return s;
}

void GptOssConfig::validate(Problems& problems) const { resolve(*this, problems); }

class GptOss final : public Balanced<DecodingLlama<PreNormBlock<GptOssShape, nn::StackedMlp>, GptOssShape>> {
 public:
  GptOss(const GptOssConfig& config, const HeadRequest& head) : Balanced(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    write_local_experts(config_, s.experts, node);
    node.at_or_add("swiglu_alpha") = nn::hf_float(s.mlp.gate.alpha);
    node.at_or_add("swiglu_limit") = nn::hf_float(s.mlp.gate.limit);
    sort_keys(node);
    return node;
  }

 private:
  GptOssConfig config_;
};

}  // namespace

void register_gpt_oss(Registries& hone) {
  hone.models.add<GptOss, GptOssConfig>("gpt_oss", "gpt-oss: attention with sinks, routed experts with biases.");
}

}  // namespace hone::models
