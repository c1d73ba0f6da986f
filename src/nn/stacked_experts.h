// gpt-oss's mixture of experts (OpenAI, 2025, arXiv:2508.10925): of experts whose weights lie in one tensor each.
//
// Letters: N tokens, D hidden.
#pragma once

#include <cstdint>

#include "hone/layers.h"
#include "hone/model.h"
#include "ops/clamped_gate.h"
#include "ops/stacked_experts.h"

namespace hone::nn {

struct PreNormLayer;

// Takes the K likeliest experts of each token, each by its probability among them; no token is dropped.
class StackedMlp final : public Module {
 public:
  struct Options {
    std::int64_t hidden = 0, inner = 0;  // inner: of one expert
    std::int64_t experts = 1, per_token = 1;
    ops::ClampedGate gate = {};
    double std = 0.02;
  };
  explicit StackedMlp(const Options& options);
  void describe(PreNormLayer& layer, const Pass& pass) const;  // what the short way of decoding makes (nn/decoding)
  // In training it leaves in the pass what RoutedMlp does.
  Tensor operator()(const Tensor& x_1ND, Pass& pass) const;

 private:
  struct Experts final : Module {
    explicit Experts(const Options& options);
    ops::StackedExperts weights(const ops::ClampedGate& gate) const;
    Weight& stack(const char* name, std::int64_t in, std::int64_t out, const Options& options);
    Weight& bias(const char* name, std::int64_t out, const Options& options);
    Weight &gate_up, &gate_up_bias, &down, &down_bias;
  };

  Options options_;
  Linear& router_;
  Experts& experts_;
};

}  // namespace hone::nn
