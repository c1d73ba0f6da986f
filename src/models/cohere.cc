// Command R (Cohere, 2024), Command R+, and Command R7B and A (cohere2, arXiv:2504.00698): attention and MLP read the
// same LayerNorm, which has no bias; neighbours are rotated, in the later form in layers with windows alone; logits are
// multiplied by a number.
//
// Letters in tensor names: N tokens, D hidden.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_model.h"

namespace hone::models {
namespace {

struct CohereConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<double> layer_norm_eps;
  double logit_scale = 0.0625;
  std::optional<bool> use_qk_norm;
  std::optional<std::int64_t> sliding_window_pattern, model_max_length, layer_switch;
  std::optional<std::string> cache_implementation, order_of_interleaved_layers, position_embedding_type;
  double rotary_pct = 1;
  bool use_embedding_sharing = true, use_gated_activation = true, use_parallel_block = true,
       use_parallel_embedding = true;

  static constexpr auto fields() {
    using C = CohereConfig;
    constexpr config::Range count{.low = 1, .high = 10000};
    constexpr const char *nothing = "Has no effect, in transformers as here.", *only_true = "Only true.";
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in LayerNorm; default 1e-5.",
                  {.low = 0, .high = 1}),
            field("logit_scale", &C::logit_scale, "What logits are multiplied by.", {.low = 1e-9, .high = 1e9}),
            field("use_qk_norm", &C::use_qk_norm,
                  "cohere: a LayerNorm of each head of queries and keys, with weights of its own."),
            field("sliding_window_pattern", &C::sliding_window_pattern,
                  "cohere2: without layer_types, every how manieth layer sees all; default 4.", count),
            field("model_max_length", &C::model_max_length, nothing), field("layer_switch", &C::layer_switch, nothing),
            field("cache_implementation", &C::cache_implementation, "Of transformers' generation; means nothing here."),
            field("order_of_interleaved_layers", &C::order_of_interleaved_layers, nothing),
            field("position_embedding_type", &C::position_embedding_type, nothing),
            field("rotary_pct", &C::rotary_pct, "Only 1."),
            field("use_embedding_sharing", &C::use_embedding_sharing, only_true),
            field("use_gated_activation", &C::use_gated_activation, only_true),
            field("use_parallel_block", &C::use_parallel_block, only_true),
            field("use_parallel_embedding", &C::use_parallel_embedding, nothing)});
  }
  void validate(Problems& problems) const;
};

constexpr std::int64_t kSeesAll = 4;  // every how manieth layer

bool has_windows(const LlamaConfig& c) { return c.model_type == "cohere2"; }

LlamaConfig completed(const CohereConfig& given) {
  LlamaConfig c = given;
  c.rms_norm_eps = given.layer_norm_eps;
  if (!has_windows(c) || c.layer_types) return c;
  const std::int64_t layers = std::min<std::int64_t>(c.num_hidden_layers.value_or(40), 10000);
  c.layer_types.emplace();
  for (std::int64_t i = 1; i <= layers; ++i)
    c.layer_types->push_back(i % given.sliding_window_pattern.value_or(kSeesAll) != 0 ? "sliding_attention"
                                                                                      : "full_attention");
  return c;
}

void refuse_others(const CohereConfig& c, Problems& problems) {
  const bool second = has_windows(c);
  refuse_rare_keys(c, /*lists_layers=*/second, problems);
  refuse_keys(c.model_type,
              {{"rms_norm_eps", c.rms_norm_eps.has_value()},
               {"use_qk_norm", second && c.use_qk_norm.value_or(false)},
               {"sliding_window_pattern", !second && c.sliding_window_pattern}},
              problems);
  problems.require(c.rotary_pct == 1, "rotary_pct", fmt::format("got {}, expected 1", c.rotary_pct));
  for (const auto& [key, value] : {std::pair{"use_embedding_sharing", c.use_embedding_sharing},
                                   {"use_gated_activation", c.use_gated_activation},
                                   {"use_parallel_block", c.use_parallel_block}})
    problems.require(value, key, "got false, expected true, as transformers has it");
}

LlamaShape resolve(const CohereConfig& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(completed(c), s, problems)) return s;
  refuse_others(c, problems);
  s.rotates_neighbours = true;
  s.hidden_scale = c.logit_scale;  // of what the head reads, which is much less than logits are
  if (!has_windows(c)) {
    if (c.use_qk_norm.value_or(false)) s.qk_norm = QkNorm::own;
    return s;
  }
  problems.require(s.head_size * s.heads == s.hidden, "head_dim",
                   fmt::format("got {}, expected hidden_size / num_attention_heads ({}), as transformers has it",
                               s.head_size, s.hidden / s.heads));
  for (const std::int64_t window : s.windows) s.unrotated.push_back(window == 0);
  return s;
}

void CohereConfig::validate(Problems& problems) const { resolve(*this, problems); }

class CohereBlock final : public nn::ResidualBlock {
 public:
  CohereBlock(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    const Tensor normed_1ND = input_layernorm(x);
    x += self_attn(normed_1ND, pass);
    x += mlp(normed_1ND, pass);
  }

 private:
  const LlamaShape& s;
  LlamaAttention& self_attn;
  nn::GatedMlp& mlp =
      child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, /*bias=*/false, s.std});
  nn::LayerNorm& input_layernorm = child<nn::LayerNorm>("input_layernorm", s.hidden, s.eps, /*with_bias=*/false);
};

class Cohere final : public LlamaModel<CohereBlock, LlamaShape, nn::LayerNorm> {
 public:
  Cohere(const CohereConfig& config, const HeadRequest& head) : LlamaModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(completed(config_), s, dtype());
    node.at_or_add("logit_scale") = nn::hf_float(config_.logit_scale);
    if (!has_windows(config_)) node.at_or_add("use_qk_norm") = config::Values<bool>::write(s.qk_norm == QkNorm::own);
    sort_keys(node);
    return node;
  }

 private:
  CohereConfig config_;
};

}  // namespace

void register_cohere(Registries& hone) {
  hone.models.add<Cohere, CohereConfig>({"cohere", "cohere2"}, "Command R: attention and MLP read the same norm.");
}

}  // namespace hone::models
