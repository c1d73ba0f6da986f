// What optimizers have in common whose update of an element depends on that element alone.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "hone/config_read.h"
#include "hone/optimizer.h"
#include "hone/registry.h"
#include "hone/schedule.h"
#include "ops/vectorised.h"
#include "optim/blocks.h"

namespace hone::optim {

// What each optimizer is told; Default has its default learning_rate and weight_decay.
template <class Default>
struct Rates {
  double learning_rate = Default::learning_rate;
  double weight_decay = Default::weight_decay;
  bool decay_all = false;
  config::Choice<Schedule> schedule{"cosine", nullptr};
  static constexpr auto fields() {
    using C = Rates;
    constexpr OnResume record = OnResume::record;
    return std::tuple{
        field("learning_rate", &C::learning_rate, "Peak learning rate.", at_least(0), record),
        field("weight_decay", &C::weight_decay,
              Default::decoupled ? "Share of a weight, times the learning rate, that is taken off each step; norms and "
                                   "biases are left out."
                                 : "Share of a weight that is added to its gradient; norms and biases are left out.",
              at_least(0), record),
        field("decay_all", &C::decay_all, "Let weight decay act on norms and biases too.", record),
        field("schedule", &C::schedule, "Learning rate over the run.", record)};
  }
};

// What those with moments are told besides.
inline constexpr const char *kBetasDoc = "How much of the old first and second moment stays.",
                            *kEpsDoc = "Added to the root of the second moment.",
                            *kDecoupledDoc = "Let weight decay act on weights, not through gradients.";
inline constexpr config::Range kShare{.low = 0, .high = 1};
void check_betas(const std::vector<double>& betas, std::size_t count, Problems& problems);

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
//   loop<T>(Elements<T, Rule>, values, common): the update of a block; T is float or double
//   plain(w, gradient, state, values, common): the same in ATen; gradient is gradient_of(), decay by `keep` is its own
template <class T, class Rule>
struct Elements {
  T* __restrict w;
  const T* __restrict g;
  std::array<T*, Rule::kKinds.size()> state;  // null: there is none
  std::int64_t size;
};

template <class Rule>
class Elementwise final : public Optimizer {
 public:
  using Config = typename Rule::Config;
  using Values = typename Rule::Values;
  static constexpr std::size_t kStates = Rule::kKinds.size();
  explicit Elementwise(const Config& config)
      : config_(config), schedule_(registries().schedules.make(config.schedule)) {}

  void attach(std::span<OptimizedWeight> weights) override {
    for (const OptimizedWeight& weight : weights) {
      names_.push_back(weight.name);
      std::array<Tensor, kStates>& state = states_.emplace_back();
      for (std::size_t kind = 0; kind < kStates; ++kind)
        if (has(kind)) state[kind] = at::zeros_like(weight.master);
    }
  }

  void update(std::span<OptimizedWeight> weights, std::int64_t step, double learning_rate,
              double gradient_scale) override {
    const Values values = rule_.values(config_, step, learning_rate);
    const auto common_for = [&](const OptimizedWeight& weight) {
      Common common{.gradient_scale = gradient_scale};
      if (!weight.decays && !config_.decay_all) return common;
      if (Rule::is_decoupled(config_))
        common.keep = 1 - learning_rate * config_.weight_decay;
      else
        common.decay = config_.weight_decay;
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
        [&](const OptimizedWeight& weight) {
          const Common common = common_for(weight);
          Tensor master = weight.master;
          const Tensor gradient = gradient_of(weight.gradient, master, common);
          if (common.keep != 1) master.mul_(common.keep);
          Rule::plain(master, gradient, states_[weight.index], values);
        });
  }

  void each_state(const std::function<void(const std::string&, Tensor&)>& visit) override {
    for (std::size_t i = 0; i < names_.size(); ++i)
      for (std::size_t kind = 0; kind < kStates; ++kind)
        if (has(kind)) visit(fmt::format("{}.{}", Rule::kKinds[kind], names_[i]), states_[i][kind]);
  }

  bool is_elementwise() const override { return true; }
  double learning_rate(std::int64_t step, std::int64_t steps) const override {
    return config_.learning_rate * schedule_->factor(step, steps);
  }
  void check(std::int64_t steps, Problems& problems) const override {
    const Problems::Scope below(problems, "schedule.");
    schedule_->check(steps, problems);
  }

 private:
  bool has(std::size_t kind) const {
    if constexpr (requires { Rule::has(config_, kind); }) return Rule::has(config_, kind);
    return true;
  }

  template <class T>
  void run(const OptimizedWeight& weight, const Block& block, const Values& values, const Common& common) {
    Elements<T, Rule> x{weight.master.mutable_data_ptr<T>() + block.begin,
                        weight.gradient.const_data_ptr<T>() + block.begin,
                        {},
                        block.end - block.begin};
    for (std::size_t kind = 0; kind < kStates; ++kind)
      if (has(kind)) x.state[kind] = states_[weight.index][kind].template mutable_data_ptr<T>() + block.begin;
    ops::vectorised([&] { Rule::loop(x, values, common); });
  }

  Config config_;
  Rule rule_;
  std::unique_ptr<Schedule> schedule_;
  std::vector<std::string> names_;
  std::vector<std::array<Tensor, kStates>> states_;
};

}  // namespace hone::optim
