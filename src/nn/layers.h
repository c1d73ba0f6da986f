// The layers that models are built from. Each is a Module whose weights carry Hugging Face's names.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hone/module.h"
#include "nn/norms.h"
#include "ops/linear.h"

namespace hone::nn {

// x W^T + b; weight [out, in].
class Linear final : public Module {
 public:
  struct Options {
    bool bias = false;
    double std = 0.02;
  };
  Linear(std::int64_t in, std::int64_t out, Options options);
  Tensor operator()(const Tensor& x) const { return ops::linear(x, with_bias()); }
  ops::LinearWeight with_bias() const;  // for ops that take several

  Weight& weight;
  Weight* const bias;  // null: none
};

class Embedding final : public Module {
 public:
  // no_gradient_id: see ops::embedding.
  Embedding(std::int64_t rows, std::int64_t width, double std, std::int64_t no_gradient_id = -1);
  Tensor operator()(const Tensor& ids) const;

  Weight& weight;

 private:
  std::int64_t no_gradient_id_;
};

// down(act(gate(x)) * up(x)).
class GatedMlp final : public Module {
 public:
  struct Options {
    std::int64_t hidden = 0, inner = 0;
    ops::Activation activation = ops::Activation::silu;
    bool bias = false;
    double std = 0.02;
  };
  explicit GatedMlp(const Options& options);
  Tensor operator()(const Input& x) const { return x.gated_mlp(weights(), activation_); }
  ops::GatedMlpWeights weights() const { return {gate_.with_bias(), up_.with_bias(), down_.with_bias()}; }

 private:
  ops::Activation activation_;
  Linear &gate_, &up_, &down_;
};

// Equal blocks named "0", "1", …; each is made as B(args..., index).
template <class B>
class Stack final : public Module {
 public:
  template <class... Args>
  explicit Stack(std::int64_t count, const Args&... args) {
    for (std::int64_t i = 0; i < count; ++i) blocks_.push_back(&child<B>(std::to_string(i), args..., i));
  }
  const std::vector<const B*>& blocks() const { return blocks_; }

 private:
  std::vector<const B*> blocks_;
};

}  // namespace hone::nn
