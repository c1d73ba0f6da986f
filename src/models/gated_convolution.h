// LFM's short convolution: what a token gives to it is gated, and so is what it gets from it.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <utility>

#include "hone/layers.h"
#include "hone/memory_layers.h"
#include "nn/decoding/pre_norm.h"

namespace hone::models {

class GatedConvolution final : public Module {
 public:
  struct Options {
    std::int64_t hidden = 0, taps = 0;
    bool bias = false;
    double std = 0.02;
  };
  explicit GatedConvolution(const Options& options) : o(options) {}

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto made = nn::linears(x_1ND, {&in_proj}, pass)[0].squeeze(0).chunk(3, -1);
    const Tensor &in_gate_ND = made[0], &out_gate_ND = made[1], &x_ND = made[2];
    return out_proj((out_gate_ND * conv(in_gate_ND * x_ND, pass)).unsqueeze(0), pass);
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    nn::MemoryForm form{.kind = nn::MemoryForm::Kind::convolution,
                        .in = {in_proj.with_adapter(pass)},
                        .out = out_proj.with_adapter(pass)};
    form.convolution = {conv.weight.use().squeeze(1), conv.bias ? conv.bias->use() : Tensor(), /*silu=*/false};
    layer.memory = std::make_shared<const nn::MemoryForm>(std::move(form));
  }

 private:
  nn::Linear& projection(const char* name, std::int64_t out) {
    return child<nn::Linear>(name, o.hidden, out, nn::Linear::Options{.bias = o.bias, .std = o.std});
  }
  const Options o;
  nn::ShortConvolution& conv = child<nn::ShortConvolution>(
      "conv", o.hidden, o.taps, nn::ShortConvolution::Options{.std = o.std, .silu = false, .bias = o.bias});
  nn::Linear& in_proj = projection("in_proj", 3 * o.hidden);
  nn::Linear& out_proj = projection("out_proj", o.hidden);
};

}  // namespace hone::models
