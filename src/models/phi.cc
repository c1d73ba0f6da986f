// Phi-1, -1.5 and -2 (Gunasekar et al., 2023, arXiv:2306.11644): attention and an MLP without a gate read the same
// LayerNorm, everything has biases, and a part of each head is rotated.
//
// Letters in tensor names: N tokens, D hidden.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/dropping_model.h"
#include "models/plain_mlp.h"

namespace hone::models {
namespace {

struct PhiConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<double> layer_norm_eps;
  double resid_pdrop = 0, embd_pdrop = 0;
  bool qk_layernorm = false;

  static constexpr auto fields() {
    using C = PhiConfig;
    constexpr config::Range share{.low = 0, .high = 0.999};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in LayerNorm; default 1e-5.",
                  {.low = 0, .high = 1}),
            field("resid_pdrop", &C::resid_pdrop, "Share of what attention and MLP give that training drops.", share),
            field("embd_pdrop", &C::embd_pdrop, "The same of embeddings.", share),
            field("qk_layernorm", &C::qk_layernorm, "A LayerNorm of each head of queries and keys.")});
  }
  void validate(Problems& problems) const;
};

// What transformers takes for keys that are absent.
LlamaConfig completed(const PhiConfig& given) {
  LlamaConfig c = given;
  c.rms_norm_eps = given.layer_norm_eps;
  if (!c.partial_rotary_factor) c.partial_rotary_factor = 0.5;
  return c;
}

DroppingShape resolve(const PhiConfig& c, Problems& problems) {
  DroppingShape s;
  if (!resolve_base(completed(c), s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  refuse_keys(c.model_type,
              {{"rms_norm_eps", c.rms_norm_eps.has_value()}, {"attention_bias", c.attention_bias.has_value()}},
              problems);
  s.qkv_bias = s.output_bias = s.mlp_bias = s.norm_bias = s.head_bias = true;
  s.output = "dense", s.last_norm = "final_layernorm";
  if (c.qk_layernorm) s.qk_norm = QkNorm::layer, s.q_norm = "q_layernorm", s.k_norm = "k_layernorm";
  s.residual_dropout = c.resid_pdrop, s.embedding_dropout = c.embd_pdrop;
  return s;
}

void PhiConfig::validate(Problems& problems) const { resolve(*this, problems); }

class PhiBlock final : public nn::ResidualBlock {
 public:
  PhiBlock(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    const Tensor normed_1ND = input_layernorm(x);
    x += nn::dropout(self_attn(normed_1ND, pass), s.residual_dropout, pass, "attention");
    x += nn::dropout(mlp(normed_1ND, pass), s.residual_dropout, pass, "mlp");
  }

 private:
  const LlamaShape& s;
  LlamaAttention& self_attn;
  PlainMlp& mlp = child<PlainMlp>("mlp", PlainMlp::options_of(s, "fc1", "fc2"));
  nn::LayerNorm& input_layernorm = child<nn::LayerNorm>("input_layernorm", s.hidden, s.eps);
};

class Phi final : public DroppingModel<PhiBlock> {
 public:
  Phi(const PhiConfig& config, const HeadRequest& head) : DroppingModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(completed(config_), s, dtype());
    node.at_or_add("rope_parameters").at_or_add("partial_rotary_factor") = nn::hf_float(s.rope.partial_rotary_factor);
    node.at_or_add("resid_pdrop") = nn::hf_float(s.residual_dropout);
    node.at_or_add("embd_pdrop") = nn::hf_float(s.embedding_dropout);
    node.at_or_add("qk_layernorm") = config::Values<bool>::write(config_.qk_layernorm);
    sort_keys(node);
    return node;
  }

 private:
  PhiConfig config_;
};

}  // namespace

void register_phi(Registries& hone) {
  hone.models.add<Phi, PhiConfig>("phi", "Phi-1 to Phi-2: attention and MLP read the same norm, with biases.");
}

}  // namespace hone::models
