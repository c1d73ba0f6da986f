// Seed-OSS (ByteDance, 2025): Llama with biases in queries, keys and values, and dropout.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

struct SeedOssConfig : LlamaConfig {
  using Base = LlamaConfig;
  bool attention_out_bias = false;
  double residual_dropout = 0.1;

  static constexpr auto fields() {
    using C = SeedOssConfig;
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{field("attention_out_bias", &C::attention_out_bias,
                         "A bias in what attention gives; attention_bias: in what it reads."),
                   field("residual_dropout", &C::residual_dropout,
                         "Share of what attention and MLP give that training drops.", {.low = 0, .high = 0.999})});
  }
  void validate(Problems& problems) const;
};

// What transformers takes for keys that are absent.
LlamaConfig completed(const SeedOssConfig& given) {
  LlamaConfig c = given;
  if (!c.attention_bias) c.attention_bias = true;
  if (!c.attention_dropout) c.attention_dropout = 0.1;
  return c;
}

LlamaShape resolve(const SeedOssConfig& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(completed(c), s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  s.output_bias = c.attention_out_bias;
  s.residual_dropout = c.residual_dropout;
  return s;
}

void SeedOssConfig::validate(Problems& problems) const { resolve(*this, problems); }

class SeedOss final : public LlamaStack {
 public:
  SeedOss(const SeedOssConfig& config, const HeadRequest& head) : LlamaStack(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(completed(config_), s, dtype());
    node.at_or_add("attention_bias") = config::Values<bool>::write(s.qkv_bias);
    node.at_or_add("attention_out_bias") = config::Values<bool>::write(s.output_bias);
    node.at_or_add("residual_dropout") = nn::hf_float(s.residual_dropout);
    node.at_or_add("pretraining_tp") = config::Values<std::int64_t>::write(config_.pretraining_tp.value_or(1));
    sort_keys(node);
    return node;
  }

 private:
  SeedOssConfig config_;
};

}  // namespace

void register_seed_oss(Registries& hone) {
  hone.models.add<SeedOss, SeedOssConfig>("seed_oss", "Seed-OSS: Llama with biases and dropout.");
}

}  // namespace hone::models
