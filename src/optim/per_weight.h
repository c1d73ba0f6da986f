// What optimizers have in common whose update of an element depends on others of its weight.
#pragma once

#include <ATen/ATen.h>

#include "optim/blocks.h"
#include "optim/frame.h"
#include "tensor/host.h"

namespace hone::optim {

// What a rule is told of an update.
struct WeightStep {
  std::int64_t update = 1;  // counted from 1
  double learning_rate = 0, weight_decay = 0;
};

// Of all slices along the last two dimensions of a stacked weight, or of all of another one.
inline bool is_matrix(const Tensor& weight) { return weight.dim() >= 2; }
// Biases of experts side by side are none.
inline bool is_matrix(const OptimizedWeight& weight) {
  return is_matrix(weight.master) && (!weight.weight || weight.weight->decays());
}

inline double norm_of(const Tensor& x) { return host::number(x.norm(2, at::kDouble)); }

// Rule has:
//   Config, with Rates as its Base
//   kKinds: names of the state's tensors
//   state(config, weight): those of a weight, zero; what is not needed stays undefined
//   update(config, weight, gradient, state, step): of one weight, its master in place; gradient is its own to change
template <class Rule>
class PerWeight final : public Frame<typename Rule::Config, Rule::kKinds.size()> {
 public:
  using Config = typename Rule::Config;
  explicit PerWeight(const Config& config) : Frame<Config, Rule::kKinds.size()>(config, Rule::kKinds) {}

  void attach(std::span<OptimizedWeight> weights) override {
    for (const OptimizedWeight& weight : weights) this->add(weight) = Rule::state(this->config_, weight);
  }

  void update(std::span<OptimizedWeight> weights, const UpdateStep& step) override {
    for (OptimizedWeight& weight : weights) {
      if (!weight.gradient.defined()) continue;
      Rule::update(this->config_, weight, weight.gradient * step.gradient_scale, this->states_[weight.index],
                   WeightStep{step.update, this->rate(step), this->decay_of(weight)});
      write_rounded(weight);
    }
  }
};

}  // namespace hone::optim
