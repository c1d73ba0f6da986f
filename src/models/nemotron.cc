// Nemotron (NVIDIA, 2024, arXiv:2402.16819), and Minitron: LayerNorms of 1 + weight, an MLP of squares without a gate,
// and a part of each head that is rotated.
//
// Letters in tensor names: N tokens, D hidden.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_model.h"
#include "models/plain_mlp.h"
#include "models/pre_norm_block.h"
#include "ops/layer_norm.h"

namespace hone::models {
namespace {

struct NemotronConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<double> norm_eps, rope_percent;
  std::optional<std::int64_t> kv_channels;

  static constexpr auto fields() {
    using C = NemotronConfig;
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("norm_eps", &C::norm_eps, "Added to the variance in LayerNorm; default 1e-5.", {.low = 0, .high = 1}),
            field("rope_percent", &C::rope_percent, "Has no effect: partial_rotary_factor has."),
            field("kv_channels", &C::kv_channels, "Has no effect: head_dim has.")});
  }
  void validate(Problems& problems) const;
};

// What transformers takes for keys that are absent.
LlamaConfig completed(const NemotronConfig& given) {
  LlamaConfig c = given;
  c.rms_norm_eps = given.norm_eps;
  if (!c.partial_rotary_factor) c.partial_rotary_factor = 0.5;
  return c;
}

SquaringShape resolve(const NemotronConfig& c, Problems& problems) {
  SquaringShape s;
  if (!resolve_squaring(completed(c), s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  refuse_keys(c.model_type, {{"rms_norm_eps", c.rms_norm_eps.has_value()}}, problems);
  s.norm_bias = true;
  return s;
}

void NemotronConfig::validate(Problems& problems) const { resolve(*this, problems); }

// A LayerNorm that multiplies by 1 + weight, which is 1 when it is fresh, as in transformers.
class LayerNorm1P final : public nn::Norm {
 public:
  LayerNorm1P(std::int64_t width, double eps, bool /*with_bias*/ = true)
      : weight(parameter("weight", {width}, {.kind = Init::Kind::ones}, /*decays=*/false)),
        bias(parameter("bias", {width}, {.kind = Init::Kind::zeros}, /*decays=*/false)),
        eps_(eps) {}
  using Norm::operator();
  Tensor operator()(const Tensor& x) const override { return ops::layer_norm(x, weight.use() + 1, bias.use(), eps_); }
  ops::AddNorm add(const Tensor& x, const Tensor& residual) const override {
    return ops::add_layer_norm(x, residual, weight.use() + 1, bias.use(), eps_);
  }

  Weight &weight, &bias;

 private:
  double eps_;
};

using NemotronBlock = PreNormBlock<SquaringShape, PlainMlp, LlamaAttention, LayerNorm1P>;

class Nemotron final : public LlamaModel<NemotronBlock, SquaringShape, LayerNorm1P> {
 public:
  Nemotron(const NemotronConfig& config, const HeadRequest& head)
      : LlamaModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(completed(config_), s, dtype());
    node.at_or_add("rope_parameters").at_or_add("partial_rotary_factor") = nn::hf_float(s.rope.partial_rotary_factor);
    sort_keys(node);
    return node;
  }

 private:
  NemotronConfig config_;
};

}  // namespace

void register_nemotron(Registries& hone) {
  hone.models.add<Nemotron, NemotronConfig>("nemotron", "Nemotron: norms of 1 + weight, an MLP of squares.");
}

}  // namespace hone::models
