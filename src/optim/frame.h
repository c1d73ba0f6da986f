// What optimizers here have in common: options, schedule, and for each weight a tensor of each kind.
#pragma once

#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "hone/config_read.h"
#include "hone/optimizer.h"
#include "hone/registry.h"
#include "hone/schedule.h"

namespace hone::optim {

// What each optimizer is told; Default has its default learning_rate and weight_decay, and its schedule if that is not
// cosine.
template <class Default>
constexpr const char* default_schedule() {
  if constexpr (requires { Default::schedule; }) return Default::schedule;
  return "cosine";
}
template <class Default>
struct Rates {
  double learning_rate = Default::learning_rate;
  double weight_decay = Default::weight_decay;
  bool decay_all = false;
  config::Choice<Schedule> schedule{default_schedule<Default>(), nullptr};
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

// Config: derived from Rates, or with the same members. Kinds: what the names of the state's tensors begin with.
template <class Config, std::size_t kinds>
class Frame : public Optimizer {
 public:
  void each_state(const std::function<void(const std::string&, Tensor&)>& visit) override {
    for (std::size_t i = 0; i < names_.size(); ++i)
      for (std::size_t kind = 0; kind < kinds; ++kind)
        if (states_[i][kind].defined()) visit(fmt::format("{}.{}", kinds_[kind], names_[i]), states_[i][kind]);
  }
  double learning_rate(std::int64_t step, std::int64_t steps) const override {
    return config_.learning_rate * schedule_->factor(step, steps);
  }
  double weight_decay(const OptimizedWeight& weight) const override { return decay_of(weight); }
  void check(std::int64_t steps, Problems& problems) const override {
    const Problems::Scope below(problems, "schedule.");
    schedule_->check(steps, problems);
  }

 protected:
  using State = std::array<Tensor, kinds>;
  Frame(const Config& config, const std::array<const char*, kinds>& names)
      : config_(config), schedule_(registries().schedules.make(config.schedule)), kinds_(names) {}
  State& add(const OptimizedWeight& weight) {
    names_.push_back(weight.name);
    return states_.emplace_back();
  }
  double rate(const UpdateStep& step) const { return learning_rate(step.step, step.steps) * step.learning_rate_scale; }
  double decay_of(const OptimizedWeight& weight) const {
    return weight.decays || config_.decay_all ? config_.weight_decay : 0.0;
  }

  const Config config_;
  const std::unique_ptr<Schedule> schedule_;
  std::vector<State> states_;  // of the weights, by their index

 private:
  const std::array<const char*, kinds> kinds_;
  std::vector<std::string> names_;
};

}  // namespace hone::optim
