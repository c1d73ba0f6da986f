// What optimizers have in common whose update of an element depends on that element alone.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <span>
#include <tuple>
#include <vector>

#include "ops/backend.h"
#include "ops/vectorised.h"
#include "optim/blocks.h"
#include "optim/frame.h"
#include "tensor/tensor_memory.h"

namespace hone::optim {

// What one update has in common for all elements, besides the rule's own.
struct Common {
  double gradient_scale = 1;
  double decay = 0;  // of a weight, added to its gradient
  double keep = 1;   // of a weight: 1 - learning rate * weight decay
};

// The meaning: a gradient as the rule sees it.
inline Tensor gradient_of(const Tensor& gradient, const Tensor& master, const Common& common) {
  const Tensor scaled = gradient * common.gradient_scale;
  return common.decay == 0 ? scaled : scaled + master * common.decay;
}

// Rule has:
//   Config, with Rates as its Base
//   kKinds: names of the state's tensors, each of a weight's shape
//   has(config, kind): whether there is such a one (where it has this function)
//   is_decoupled(config): whether weight decay acts on the weight rather than on its gradient
//   Values values(config, t, learning_rate): what is the same for all elements in the update t, counted from 1; a
//     function of these alone
//   either element<T>(values, common): an Element<T> of elements/<kElement>.h, which says what becomes of one element,
//     to the host's compiler and, as text, to a GPU's (ops/element_update.h): its update(gradient, w, states...)
//   or loop<T>(Elements<T, Rule>, values, common): the update of a block on the host. T is float or double
//   plain(w, gradient, state, values): the same in ATen; gradient is gradient_of(), decay by `keep` has been made
template <class T, class Rule>
struct Elements {
  T* __restrict w;
  const T* __restrict g;
  std::array<T*, Rule::kKinds.size()> state;  // null: there is none
  std::int64_t size;
};

template <class T, class Element, class... State>
[[gnu::always_inline]] inline void update_each(const Element element, std::int64_t size, const T* __restrict g,
                                               T* __restrict w, State* __restrict... states) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) element.update(g[i], w[i], states[i]...);
}

// A block on the host.
template <class T, class Rule>
[[gnu::always_inline]] inline void update_block(const Elements<T, Rule>& x, const typename Rule::Values& values,
                                                const Common& common) {
  if constexpr (requires { Rule::kElement; }) {
    const auto element = Rule::template element<T>(values, common);
    std::apply([&](auto*... states) { update_each(element, x.size, x.g, x.w, states...); }, x.state);
  } else {
    Rule::loop(x, values, common);
  }
}

template <class Rule>
class Elementwise : public Frame<typename Rule::Config, Rule::kKinds.size()> {
 public:
  using Config = typename Rule::Config;
  using Values = typename Rule::Values;
  static constexpr std::size_t kStates = Rule::kKinds.size();
  explicit Elementwise(const Config& config) : Frame<Config, kStates>(config, Rule::kKinds) {}

  void attach(std::span<OptimizedWeight> weights) override {
    for (const OptimizedWeight& weight : weights) {
      std::array<Tensor, kStates>& state = this->add(weight);
      for (std::size_t kind = 0; kind < kStates; ++kind)
        if (has(kind)) state[kind] = fresh_zeros_like(weight.master);
    }
  }

  void update(std::span<OptimizedWeight> weights, const UpdateStep& step) override {
    const double rate = this->rate(step);
    const Values values = rule_.values(config(), step.update, rate);
    const auto common_for = [&](const OptimizedWeight& weight) {
      Common common{.gradient_scale = step.gradient_scale};
      const double decay = this->decay_of(weight);
      Rule::is_decoupled(config()) ? common.keep = 1 - rate* decay : common.decay = decay;
      return common;
    };
    update_blocks(
        weights,
        [&](const OptimizedWeight& weight, const Block& block) {
          if (weight.master.scalar_type() == at::kDouble)
            run<double>(weight, block, values, common_for(weight));
          else
            run<float>(weight, block, values, common_for(weight));
        },
        [&](const OptimizedWeight& weight) { run_elsewhere(weight, values, common_for(weight), step.scale_there); });
  }

  bool is_elementwise() const override { return true; }
  bool takes_scale_there() const override { return true; }

 private:
  const Config& config() const { return this->config_; }
  bool has(std::size_t kind) const {
    if constexpr (requires { Rule::has(config(), kind); }) return Rule::has(config(), kind);
    return true;
  }

  template <class T>
  void run(const OptimizedWeight& weight, const Block& block, const Values& values, const Common& common) {
    Elements<T, Rule> x{weight.master.mutable_data_ptr<T>() + block.begin,
                        weight.gradient.const_data_ptr<T>() + block.begin,
                        {},
                        block.end - block.begin};
    for (std::size_t kind = 0; kind < kStates; ++kind)
      if (has(kind)) x.state[kind] = this->states_[weight.index][kind].template mutable_data_ptr<T>() + block.begin;
    ops::vectorised([&] { update_block(x, values, common); });
  }

  void run_elsewhere(const OptimizedWeight& weight, const Values& values, const Common& common, const Tensor& scale) {
    if constexpr (requires { Rule::kElement; })
      if (const auto by_kernel = ops::backend_of(weight.master).updates.elements) {
        const bool wide = weight.master.scalar_type() == at::kDouble;
        return wide ? run_kernel<double>(by_kernel, weight, values, common, scale)
                    : run_kernel<float>(by_kernel, weight, values, common, scale);
      }
    const Tensor gradient = scale.defined() ? weight.gradient * scale : weight.gradient;
    std::vector<Tensor> changed{weight.master}, before;
    for (const Tensor& state : this->states_[weight.index])
      if (state.defined()) changed.push_back(state);
    if (scale.defined())
      for (const Tensor& x : changed) before.push_back(x.clone());
    run_plain(weight, gradient, values, common);
    for (std::size_t i = 0; i < before.size(); ++i)
      changed[i].copy_(at::where(scale.isnan(), before[i], changed[i]));
    write_rounded(weight);
  }

  void run_plain(const OptimizedWeight& weight, const Tensor& given, const Values& values, const Common& common) {
    Tensor master = weight.master;
    const Tensor gradient = gradient_of(given, master, common);
    if (common.keep != 1) master.mul_(common.keep);
    Rule::plain(master, gradient, this->states_[weight.index], values);
  }

  template <class T>
  void run_kernel(void (*kernel)(const ops::ElementUpdate&), const OptimizedWeight& weight, const Values& values,
                  const Common& common, const Tensor& scale) {
    const auto element = Rule::template element<T>(values, common);
    kernel({Rule::kElement, std::as_bytes(std::span(&element, 1)), weight.master, weight.gradient,
            this->states_[weight.index], weight.rounded, scale});
  }

  Rule rule_;
};

}  // namespace hone::optim
