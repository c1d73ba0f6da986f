// A gated MLP whose gate and up are one weight.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <ATen/ATen.h>

#include "hone/layers.h"
#include "models/llama_config.h"
#include "nn/decoding/pre_norm.h"
#include "ops/gated.h"

namespace hone::models {

class JoinedMlp final : public Module {
 public:
  struct Options {
    std::int64_t hidden = 0, inner = 0;
    ops::Activation activation = ops::Activation::silu;
    double std = 0.02;
    const char *gate_up = "gate_up_proj", *down = "down_proj";  // the children's names
  };
  explicit JoinedMlp(const Options& options) : o(options) {}
  explicit JoinedMlp(const LlamaShape& s)
      : JoinedMlp(Options{.hidden = s.hidden, .inner = s.inner, .activation = s.activation, .std = s.std}) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto both = nn::linears(x_1ND, {&gate_up}, pass)[0].chunk(2, -1);
    return down(ops::gated(both[0].contiguous(), both[1].contiguous(), o.activation), pass);
  }
  // What the short way of decoding makes (nn/decoding), which knows no adapters of both, nor both in few bits.
  ops::GatedMlpWeights with_adapters(const Pass& pass, nn::PreNormLayer& layer) const {
    const ops::LinearWeight both = gate_up.with_adapter(pass);
    layer.is_known &= both.low_ranks.empty() && !both.quantized;
    return {{both.weight_OI.narrow(0, 0, o.inner)}, {both.weight_OI.narrow(0, o.inner, o.inner)},
            down.with_adapter(pass)};
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const { layer.mlp = with_adapters(pass, layer); }

 private:
  const Options o;
  nn::Linear& gate_up = child<nn::Linear>(o.gate_up, o.hidden, 2 * o.inner, nn::Linear::Options{.std = o.std});
  nn::Linear& down = child<nn::Linear>(o.down, o.inner, o.hidden, nn::Linear::Options{.std = o.std});
};

}  // namespace hone::models
