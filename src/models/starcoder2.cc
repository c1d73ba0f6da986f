// StarCoder2 (Lozhkov et al., 2024, arXiv:2402.19173): Llama with LayerNorms, an MLP without a gate, biases, and
// dropout.
//
// Letters in tensor names: B batch, T time, N tokens, D hidden.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/dropping_model.h"
#include "models/plain_mlp.h"

namespace hone::models {
namespace {

struct Starcoder2Config : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<double> norm_epsilon;
  double residual_dropout = 0, embedding_dropout = 0;
  bool use_bias = true;
  std::optional<std::string> mlp_type, norm_type;

  static constexpr auto fields() {
    using C = Starcoder2Config;
    constexpr config::Range share{.low = 0, .high = 0.999};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{field("norm_epsilon", &C::norm_epsilon, "Added to the variance in LayerNorm; default 1e-5.",
                         {.low = 0, .high = 1}),
                   field("residual_dropout", &C::residual_dropout,
                         "Share of what attention and MLP give that training drops.", share),
                   field("embedding_dropout", &C::embedding_dropout, "The same of embeddings.", share),
                   field("use_bias", &C::use_bias, "Biases in attention and in the MLP."),
                   field("mlp_type", &C::mlp_type, "Has no effect, in transformers as here."),
                   field("norm_type", &C::norm_type, "Has no effect, in transformers as here.")});
  }
  void validate(Problems& problems) const;
};

LlamaConfig completed(const Starcoder2Config& given) {
  LlamaConfig c = given;
  c.rms_norm_eps = given.norm_epsilon;
  return c;
}

DroppingShape resolve(const Starcoder2Config& c, Problems& problems) {
  DroppingShape s;
  if (!resolve_base(completed(c), s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  refuse_keys(c.model_type,
              {{"rms_norm_eps", c.rms_norm_eps.has_value()}, {"attention_bias", c.attention_bias.value_or(false)}},
              problems);
  s.qkv_bias = s.output_bias = s.mlp_bias = c.use_bias;
  s.norm_bias = true;
  s.residual_dropout = c.residual_dropout, s.embedding_dropout = c.embedding_dropout;
  return s;
}

void Starcoder2Config::validate(Problems& problems) const { resolve(*this, problems); }

class Starcoder2Block final : public nn::ResidualBlock {
 public:
  Starcoder2Block(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += nn::dropout(self_attn(input_layernorm(x), pass), s.residual_dropout, pass, "attention");
    x += nn::dropout(mlp(post_attention_layernorm(x), pass), s.residual_dropout, pass, "mlp");
  }

 private:
  const LlamaShape& s;
  LlamaAttention& self_attn;
  PlainMlp& mlp = child<PlainMlp>("mlp", PlainMlp::options_of(s, "c_fc", "c_proj"));
  nn::LayerNorm& input_layernorm = child<nn::LayerNorm>("input_layernorm", s.hidden, s.eps);
  nn::LayerNorm& post_attention_layernorm = child<nn::LayerNorm>("post_attention_layernorm", s.hidden, s.eps);
};

class Starcoder2 final : public DroppingModel<Starcoder2Block> {
 public:
  Starcoder2(const Starcoder2Config& config, const HeadRequest& head)
      : DroppingModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(completed(config_), s, dtype());
    node.at_or_add("residual_dropout") = nn::hf_float(s.residual_dropout);
    node.at_or_add("embedding_dropout") = nn::hf_float(s.embedding_dropout);
    node.at_or_add("use_bias") = config::Values<bool>::write(s.mlp_bias);
    sort_keys(node);
    return node;
  }

 private:
  Starcoder2Config config_;
};

}  // namespace

void register_starcoder2(Registries& hone) {
  hone.models.add<Starcoder2, Starcoder2Config>("starcoder2", "StarCoder2: LayerNorms, and an MLP without a gate.");
}

}  // namespace hone::models
