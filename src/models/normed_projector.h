// A norm, two products and an activation between them: from squares of a tower's vectors to words, as in LFM2-VL and
// InternVL.
//
// Letters in tensor names: M tokens, S patches of a square, V width of the tower, D hidden.
// Children carry Hugging Face's names.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "hone/layers.h"
#include "models/quick_gelu.h"

namespace hone::models {

class NormedProjector final : public Module {
 public:
  struct Options {
    std::int64_t in = 0, inner = 0, out = 0;  // widths; in: of a square
    std::string activation = "gelu";
    bool has_norm = true, bias = true;
    double std = 0.02;
  };
  explicit NormedProjector(const Options& options) : o(options) {}
  Tensor operator()(const Tensor& squares_MSV, const Pass& pass) const {  // [M, D]
    const Tensor x_1MV = squares_MSV.flatten(1).unsqueeze(0);
    return linear_2(activation_(linear_1(layer_norm ? (*layer_norm)(x_1MV) : x_1MV, pass)), pass).squeeze(0);
  }

 private:
  nn::Linear::Options product() const { return {.bias = o.bias, .std = o.std}; }
  static constexpr double kEps = 1e-5;
  const Options o;
  const Activated activation_{o.activation};
  nn::LayerNorm* const layer_norm = o.has_norm ? &child<nn::LayerNorm>("layer_norm", o.in, kEps) : nullptr;
  nn::Linear& linear_1 = child<nn::Linear>("linear_1", o.in, o.inner, product());
  nn::Linear& linear_2 = child<nn::Linear>("linear_2", o.inner, o.out, product());
};

}  // namespace hone::models
