// The settings that each group of weights was updated with.
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"

namespace hone::callbacks {
namespace {

class LearningRate final : public Callback {
 public:
  struct Config {
    std::int64_t every = 1;
    bool momentum = true, weight_decay = true;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("every", &C::every, "Steps between measurements.", at_least(1)),
          field("momentum", &C::momentum, "Momentum as well, where the optimizer has it, or its first beta."),
          field("weight_decay", &C::weight_decay, "Weight decay as well, where the optimizer has it.")};
    }
  };
  explicit LearningRate(const Config& config) : config_(config) {}

  CallbackTimes times() const override { return {.every_n_steps = config_.every}; }
  bool sees_gradients() const override { return false; }
  bool gives_settings() const override { return true; }

  Action on_step_end(const TrainView& view, Metrics& metrics) override {
    for (const OptimizerGroup& group : view.optimizer->groups())
      for (const auto& [setting, value] : group.settings) {
        if (!wanted(setting)) continue;
        metrics[group.name.empty() ? setting : setting + "_" + group.name] = value;
      }
    return Action::go_on;
  }

 private:
  bool wanted(const std::string& setting) const {
    return setting == "momentum" ? config_.momentum : setting == "weight_decay" ? config_.weight_decay : true;
  }
  Config config_;
};

}  // namespace

void register_learning_rate(Registries& hone) {
  hone.callbacks.add<LearningRate>("learning_rate", "Learning rate, momentum and weight decay of each group.");
}

}  // namespace hone::callbacks
