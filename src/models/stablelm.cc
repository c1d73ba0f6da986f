// StableLM (Stability AI, 2023 and 2024, arXiv:2402.17834): Llama with LayerNorms, a part of each head that is rotated,
// and, in some sizes, a norm of each head and attention beside the MLP.
//
// Letters in tensor names: N tokens, D hidden.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_model.h"

namespace hone::models {
namespace {

struct StableLmConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<double> layer_norm_eps, rotary_scaling_factor;
  bool use_qkv_bias = false, qk_layernorm = false, use_parallel_residual = false;
  double hidden_dropout = 0;

  static constexpr auto fields() {
    using C = StableLmConfig;
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in LayerNorm; default 1e-5.",
                  {.low = 0, .high = 1}),
            field("rotary_scaling_factor", &C::rotary_scaling_factor, "Has no effect, in transformers as here."),
            field("use_qkv_bias", &C::use_qkv_bias, "Biases in queries, keys and values."),
            field("qk_layernorm", &C::qk_layernorm, "A LayerNorm of each head of queries and keys, of its own."),
            field("use_parallel_residual", &C::use_parallel_residual, "Whether the MLP reads what attention reads."),
            field("hidden_dropout", &C::hidden_dropout, "Share of what the MLP gives that training drops.",
                  {.low = 0, .high = 0.999})});
  }
  void validate(Problems& problems) const;
};

struct StableLmShape : LlamaShape {
  bool parallel = false;
};

// What transformers takes for keys that are absent.
LlamaConfig completed(const StableLmConfig& given) {
  LlamaConfig c = given;
  c.rms_norm_eps = given.layer_norm_eps;
  if (!c.partial_rotary_factor) c.partial_rotary_factor = 0.25;
  return c;
}

StableLmShape resolve(const StableLmConfig& c, Problems& problems) {
  StableLmShape s;
  if (!resolve_base(completed(c), s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  refuse_keys(c.model_type,
              {{"rms_norm_eps", c.rms_norm_eps.has_value()}, {"attention_bias", c.attention_bias.value_or(false)}},
              problems);
  problems.require(s.head_size * s.heads == s.hidden, "head_dim",
                   fmt::format("got {}, expected hidden_size / num_attention_heads ({}), as transformers has it",
                               s.head_size, s.hidden / s.heads));
  s.qkv_bias = c.use_qkv_bias, s.norm_bias = true, s.parallel = c.use_parallel_residual;
  if (c.qk_layernorm) s.qk_norm = QkNorm::listed, s.q_norm = "q_layernorm", s.k_norm = "k_layernorm";
  s.residual_dropout = c.hidden_dropout;
  s.classifier_dropout = c.classifier_dropout.value_or(c.hidden_dropout);
  return s;
}

void StableLmConfig::validate(Problems& problems) const { resolve(*this, problems); }

class StableLmBlock final : public nn::ResidualBlock {
 public:
  StableLmBlock(const StableLmShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {
    if (!s.parallel) post_attention_layernorm = &child<nn::LayerNorm>("post_attention_layernorm", s.hidden, s.eps);
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    if (s.parallel) {
      const Tensor normed_1ND = input_layernorm(x);
      x += self_attn(normed_1ND, pass);
      x += nn::dropout(mlp(normed_1ND, pass), s.residual_dropout, pass, "mlp");
    } else {
      x += self_attn(input_layernorm(x), pass);
      x += nn::dropout(mlp((*post_attention_layernorm)(x), pass), s.residual_dropout, pass, "mlp");
    }
  }

 private:
  const StableLmShape& s;
  LlamaAttention& self_attn;
  nn::GatedMlp& mlp =
      child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, /*bias=*/false, s.std});
  nn::LayerNorm& input_layernorm = child<nn::LayerNorm>("input_layernorm", s.hidden, s.eps);
  const nn::LayerNorm* post_attention_layernorm = nullptr;  // null: the MLP reads the other one
};

class StableLm final : public LlamaModel<StableLmBlock, StableLmShape, nn::LayerNorm> {
 public:
  StableLm(const StableLmConfig& config, const HeadRequest& head)
      : LlamaModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(completed(config_), s, dtype());
    const auto put = [&](const char* key, bool value) { node.at_or_add(key) = config::Values<bool>::write(value); };
    node.at_or_add("rope_parameters").at_or_add("partial_rotary_factor") = nn::hf_float(s.rope.partial_rotary_factor);
    node.at_or_add("hidden_dropout") = nn::hf_float(s.residual_dropout);
    put("use_qkv_bias", s.qkv_bias), put("qk_layernorm", config_.qk_layernorm);
    put("use_parallel_residual", s.parallel);
    sort_keys(node);
    return node;
  }

 private:
  StableLmConfig config_;
};

}  // namespace

void register_stablelm(Registries& hone) {
  hone.models.add<StableLm, StableLmConfig>("stablelm", "StableLM: LayerNorms, and a part of each head rotated.");
}

}  // namespace hone::models
