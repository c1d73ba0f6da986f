// Callbacks that tests register: they do something at a chosen step.
#pragma once

#include <csignal>

#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/module.h"
#include "hone/registry.h"

namespace hone::test {

// Raises a signal at the end of a step, or in the middle of an evaluation's step.
class RaiseAt final : public Callback {
 public:
  struct Config {
    std::int64_t step = 1, number = SIGTERM;
    static constexpr auto fields() {
      return std::tuple{field("step", &Config::step, "When."), field("number", &Config::number, "Which signal.")};
    }
  };
  explicit RaiseAt(const Config& config) : config_(config) {}
  Action on_step_end(const TrainView& view, const Metrics&) override {
    if (view.step == config_.step) std::raise(static_cast<int>(config_.number));
    return Action::go_on;
  }

 private:
  Config config_;
};

// Puts a NaN into one weight at the end of a step.
class Poison final : public Callback {
 public:
  struct Config {
    std::int64_t step = 1;
    static constexpr auto fields() { return std::tuple{field("step", &Config::step, "When.")}; }
  };
  explicit Poison(const Config& config) : config_(config) {}
  Action on_step_end(const TrainView& view, const Metrics&) override {
    if (view.step != config_.step) return Action::go_on;
    view.model.each_weight([](const std::string& name, Weight& weight) {
      if (name.find("layers.1.mlp.up_proj") != std::string::npos) weight.value().detach().view({-1})[3].fill_(NAN);
    });
    return Action::go_on;
  }

 private:
  Config config_;
};

inline void register_test_callbacks() {
  static const bool done = [] {
    registries().callbacks.add<RaiseAt>("raise_at", "Raise a signal.");
    registries().callbacks.add<Poison>("poison", "Write a NaN.");
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace hone::test
