// EXAONE 3 (LG AI Research, 2024, arXiv:2408.03541): Llama by other names.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

struct ExaoneConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<std::int64_t> num_layers;
  std::optional<double> layer_norm_epsilon, embed_dropout;
  std::optional<std::string> activation_function;

  static constexpr auto fields() {
    using C = ExaoneConfig;
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("num_layers", &C::num_layers, "num_hidden_layers by another name.", {.low = 1, .high = 10000}),
            field("layer_norm_epsilon", &C::layer_norm_epsilon, "rms_norm_eps by another name.", {.low = 0, .high = 1}),
            field("activation_function", &C::activation_function, "hidden_act by another name."),
            field("embed_dropout", &C::embed_dropout, "Has no effect, in transformers as here.",
                  config::Range{.low = 0, .high = 0.999})});
  }
  void validate(Problems& problems) const;
};

LlamaConfig renamed(const ExaoneConfig& given) {
  LlamaConfig c = given;
  if (given.num_layers) c.num_hidden_layers = given.num_layers;
  if (given.layer_norm_epsilon) c.rms_norm_eps = given.layer_norm_epsilon;
  if (given.activation_function) c.hidden_act = given.activation_function;
  return c;
}

LlamaShape resolve(const ExaoneConfig& given, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(renamed(given), s, problems)) return s;
  refuse_rare_keys(given, /*lists_layers=*/false, problems);
  const auto same = [&](const char* key, const auto& other, const char* usual, const auto& named) {
    problems.require(!other || !named || *other == *named, key, fmt::format("differs from {}, its other name", usual));
  };
  same("num_layers", given.num_layers, "num_hidden_layers", given.num_hidden_layers);
  same("layer_norm_epsilon", given.layer_norm_epsilon, "rms_norm_eps", given.rms_norm_eps);
  same("activation_function", given.activation_function, "hidden_act", given.hidden_act);
  s.body = "transformer", s.table = "wte", s.stack = "h", s.last_norm = "ln_f", s.output = "out_proj";
  return s;
}

void ExaoneConfig::validate(Problems& problems) const { resolve(*this, problems); }

class ExaoneBlock final : public nn::ResidualBlock {
 public:
  ExaoneBlock(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), attention(child<LlamaAttention>("attn.attention", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += attention(ln_1(x), pass);
    x += mlp(ln_2(x), pass);
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    attention.describe(layer, pass);
    layer.attention_norm_D = ln_1.weight.use(), layer.mlp_norm_D = ln_2.weight.use();
    layer.mlp = mlp.with_adapters(pass);
    return layer;
  }

 private:
  const LlamaShape& s;
  nn::RmsNorm& ln_1 = child<nn::RmsNorm>("ln_1", s.hidden, s.norm());
  LlamaAttention& attention;
  nn::RmsNorm& ln_2 = child<nn::RmsNorm>("ln_2", s.hidden, s.norm());
  nn::GatedMlp& mlp = child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{.hidden = s.hidden,
                                                                       .inner = s.inner,
                                                                       .activation = s.activation,
                                                                       .bias = s.mlp_bias,
                                                                       .std = s.std,
                                                                       .gate = "c_fc_0",
                                                                       .up = "c_fc_1",
                                                                       .down = "c_proj"});
};

class Exaone final : public DecodingLlama<ExaoneBlock> {
 public:
  Exaone(const ExaoneConfig& config, const HeadRequest& head)
      : DecodingLlama(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override { return to_hf_config(renamed(config_), s, dtype()); }
  bool is_no_weight(const std::string& tensor) const override { return tensor.ends_with(".rotary.inv_freq"); }

 private:
  ExaoneConfig config_;
};

}  // namespace

void register_exaone(Registries& hone) {
  hone.models.add<Exaone, ExaoneConfig>("exaone", "EXAONE 3: Llama by other names.");
}

}  // namespace hone::models
