// Callbacks that tests register: they do something at a chosen step.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <stdexcept>

#include "base/log.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/module.h"
#include "hone/registry.h"
#include "train/support.h"

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
  Action on_step_end(const TrainView& view, Metrics&) override {
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
  Action on_step_end(const TrainView& view, Metrics&) override {
    if (view.step != config_.step) return Action::go_on;
    view.model.each_weight([](const std::string& name, Weight& weight) {
      if (name.find("layers.1.mlp.up_proj") != std::string::npos) weight.value().detach().view({-1})[3].fill_(NAN);
    });
    return Action::go_on;
  }

 private:
  Config config_;
};

// Ends the run with an error: at the end of a step, before its update, within it, or in its evaluation.
class FailAt final : public Callback {
 public:
  struct Config {
    std::int64_t step = 1;
    std::string when = "end";
    static constexpr auto fields() {
      return std::tuple{field("step", &Config::step, "When."),
                        field("when", &Config::when, "end, gradients, update, evaluation, save or otherwise.")};
    }
  };
  explicit FailAt(const Config& config) : config_(config) {}
  Action on_step_end(const TrainView& view, Metrics&) override {
    fail("end", view);
    if (config_.when == "otherwise" && view.step == config_.step) throw std::runtime_error("it fails otherwise");
    return Action::go_on;
  }
  void on_save(const TrainView& view, const std::string&) override { fail("save", view); }
  void on_gradients(const TrainView& view, Metrics&) override { fail("gradients", view); }
  void after_update(const TrainView& view, WeightEdit&) override { fail("update", view); }
  void on_evaluation_start(const TrainView& view) override { fail("evaluation", view); }

 private:
  void fail(const std::string& when, const TrainView& view) const {
    if (when == config_.when && view.step == config_.step) throw Error(ErrorKind::data, "it fails on purpose");
  }
  Config config_;
};

// Keeps the running mean of each weight over the steps, the mean of all their elements, and the steps it was told of.
class WeightMean final : public Callback {
 public:
  struct Config {
    bool early = false;
    static constexpr auto fields() {
      return std::tuple{field("early", &Config::early, "Have the tensor of all before the state comes back.")};
    }
  };
  explicit WeightMean(const Config& config) {
    if (config.early) of_all_ = at::zeros({1}, at::kDouble);
  }
  Action on_step_end(const TrainView& view, Metrics& metrics) override {
    const c10::NoGradGuard no_grad;
    count_ += 1;
    if (!of_all_.defined()) of_all_ = at::zeros({1}, at::kDouble);
    double sum = 0;
    view.model.each_weight([&](const std::string& name, Weight& weight) {
      const Tensor value = weight.value().detach();
      Tensor& mean = means_[name];
      if (!mean.defined()) mean = at::zeros_like(value);
      mean.add_(value - mean, 1 / count_);
      sum += value.to(at::kDouble).mean().item<double>();
    });
    of_all_.add_(sum / count_);
    config::Node step = config::Node::map({{"step", config::Node::scalar(std::to_string(view.step))},
                                           {"loss", config::detail::write_scalar(metrics.at("loss"))}});
    if (told_.is_null()) told_ = config::Node::list();
    told_.items().push_back(std::move(step));
    return Action::go_on;
  }
  void visit_state(const StateVisitor& visit) override {
    visit("count", count_);
    visit("of_all", of_all_);
    visit("means", means_);
    visit("told", told_);
  }

 private:
  double count_ = 0;
  Tensor of_all_;
  std::map<std::string, Tensor> means_;
  config::Node told_;
};

inline void register_test_callbacks() {
  static const bool done = [] {
    registries().callbacks.add<RaiseAt>("raise_at", "Raise a signal.");
    registries().callbacks.add<Poison>("poison", "Write a NaN.");
    registries().callbacks.add<FailAt>("fail_at", "End with an error.");
    registries().callbacks.add<WeightMean>("weight_mean", "Keep the mean of each weight over the steps.");
    return true;
  }();
  static_cast<void>(done);
}

// Small runs with callbacks of a recipe's.
class RunsWithCallbacks : public ::testing::Test {
 protected:
  void SetUp() override { register_test_callbacks(); }
  void TearDown() override { log::set_sink({}); }
  Summary run(const std::string& name, const std::string& callbacks, const Overrides& more = {}) {
    Overrides overrides{{"run.folder", (folder_ / name).string()}, {"callbacks", callbacks}};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return train(small_recipe(folder_, overrides), quiet_options());
  }
  TempFolder folder_;
};

}  // namespace hone::test
