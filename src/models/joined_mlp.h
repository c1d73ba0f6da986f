// A gated MLP whose gate and up are one weight.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <ATen/ATen.h>

#include "hone/layers.h"
#include "models/llama_config.h"
#include "ops/gated.h"

namespace hone::models {

class JoinedMlp final : public Module {
 public:
  explicit JoinedMlp(const LlamaShape& shape) : s(shape) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto both = nn::linears(x_1ND, {&gate_up_proj}, pass)[0].chunk(2, -1);
    return down_proj(ops::gated(both[0].contiguous(), both[1].contiguous(), s.activation), pass);
  }

 private:
  const LlamaShape& s;
  nn::Linear& gate_up_proj =
      child<nn::Linear>("gate_up_proj", s.hidden, 2 * s.inner, nn::Linear::Options{.std = s.std});
  nn::Linear& down_proj = child<nn::Linear>("down_proj", s.inner, s.hidden, nn::Linear::Options{.std = s.std});
};

}  // namespace hone::models
