// Normalisations, and the residual stream between them: blocks read like their papers, and what belongs together still
// runs as one op.
//
//   nn::Residual x(x_1ND);
//   x += self_attn(input_layernorm(x), pass);
//   x += mlp(post_attention_layernorm(x));
//   return x.sum();
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hone/module.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"

namespace hone::nn {

class Norm;

// Hidden states that blocks add to. The last addition is made when the sum is next read, by the norm that reads it.
class Residual {
 public:
  explicit Residual(Tensor x) : x_(std::move(x)) {}
  Residual& operator+=(Tensor y);
  const Tensor& sum();

 private:
  friend class Input;
  Tensor x_, added_;  // added_ undefined: nothing is
  std::int64_t changes_ = 0;
};

// What products read: a tensor, or the norm of a residual as it was when norm(residual) was written. That norm is made
// where it is used, with the sum and the products as one op. The residual and the norm must be there until then.
class Input {
 public:
  Input(const Tensor& x) : x_(x) {}  // NOLINT: a tensor is an input
  Input(const Norm& norm, Residual& residual);
  operator Tensor() const { return value(); }  // NOLINT: and an input is a tensor

  Tensor value() const;
  std::vector<Tensor> linears(const std::vector<ops::LinearWeight>& weights) const;  // its product with each
  Tensor gated_mlp(const ops::GatedMlpWeights& weights, ops::Activation activation) const;

 private:
  void keep(const Tensor& sum) const;
  Tensor x_, added_;
  const Norm* norm_ = nullptr;  // null: x itself
  Residual* residual_ = nullptr;
  std::int64_t changes_ = 0;
};

class Norm : public Module {
 public:
  virtual Tensor operator()(const Tensor& x) const = 0;
  Input operator()(Residual& x) const { return {*this, x}; }

  // Of x + residual (x itself where it is undefined): the sum, and what is made of its norm.
  virtual ops::AddNorm add(const Tensor& x, const Tensor& residual) const = 0;
  virtual ops::NormLinears linears(const Tensor& x, const Tensor& residual,
                                   const std::vector<ops::LinearWeight>& weights) const;
  virtual ops::NormGatedMlp gated_mlp(const Tensor& x, const Tensor& residual, const ops::GatedMlpWeights& weights,
                                      ops::Activation activation) const;
};

// x / sqrt(mean(x^2) + eps) * weight.
class RmsNorm final : public Norm {
 public:
  RmsNorm(std::int64_t width, double eps);
  using Norm::operator();
  Tensor operator()(const Tensor& x) const override;
  ops::AddNorm add(const Tensor& x, const Tensor& residual) const override;
  ops::NormLinears linears(const Tensor& x, const Tensor& residual,
                           const std::vector<ops::LinearWeight>& weights) const override;
  ops::NormGatedMlp gated_mlp(const Tensor& x, const Tensor& residual, const ops::GatedMlpWeights& weights,
                              ops::Activation activation) const override;

  Weight& weight;

 private:
  double eps_;
};

// (x - mean) / sqrt(variance + eps) * weight + bias.
class LayerNorm final : public Norm {
 public:
  LayerNorm(std::int64_t width, double eps, bool with_bias = true);
  using Norm::operator();
  Tensor operator()(const Tensor& x) const override;
  ops::AddNorm add(const Tensor& x, const Tensor& residual) const override;

  Weight& weight;
  Weight* const bias;  // null: none

 private:
  ops::LayerNormSums sums() const;
  double eps_;
};

}  // namespace hone::nn
