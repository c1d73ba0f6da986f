// A LayerNorm without weights, as in OLMo 1 and some of OPT's kin.
#pragma once

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "hone/layers.h"
#include "models/llama_config.h"
#include "ops/add_norm.h"

namespace hone::models {

class BareLayerNorm final : public nn::Norm {
 public:
  explicit BareLayerNorm(double eps) : eps_(eps) {}
  explicit BareLayerNorm(const LlamaShape& shape) : BareLayerNorm(shape.eps) {}
  using Norm::operator();
  Tensor operator()(const Tensor& x) const override {  // in fp32 at least, rounded once
    return at::layer_norm(x.to(at::toOpMathType(x.scalar_type())), {x.size(-1)}, {}, {}, eps_).to(x.scalar_type());
  }
  ops::AddNorm add(const Tensor& x, const Tensor& residual) const override {
    const Tensor sum = residual.defined() ? x + residual : x;
    return {sum, (*this)(sum)};
  }

 private:
  double eps_;
};

}  // namespace hone::models
