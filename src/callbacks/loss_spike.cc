// Ends a run whose training loss jumps up and stays there, or never comes down (as LLM-Foundry's KillLossSpike).
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/log.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "tensor/host.h"

namespace hone::callbacks {
namespace {

class LossSpike final : public Callback {
 public:
  struct Config {
    double multiplier = 2, cap = 10;
    std::int64_t window = 100, patience = 4;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("multiplier", &C::multiplier,
                "A step's loss is too high when it is this many times the mean of those before it, or more.",
                at_least(1)),
          field("window", &C::window, "Over how many steps that mean is taken; until there are so many no run ends.",
                {.low = 2, .high = 1 << 20}),
          field("patience", &C::patience, "So many steps in a row may be too high; one more ends the run.",
                at_least(0)),
          field("cap", &C::cap,
                "The run ends as well when half of the window is above this, once two windows are done; 0 = never.",
                at_least(0))};
    }
  };
  explicit LossSpike(const Config& config) : config_(config) {}

  bool sees_gradients() const override { return false; }
  Action on_step_end(const TrainView& view, Metrics& metrics) override {
    const double loss = metrics.at("loss");
    if (!std::isfinite(loss)) return Action::go_on;  // another matter: trainer.skip_not_finite
    const std::string why = reason(view.step, loss);
    losses_.push_back(loss);
    if (std::ssize(losses_) > config_.window) losses_.erase(losses_.begin());
    if (why.empty()) return Action::go_on;
    log::warning("step {}: {}", view.step, why);
    return Action::stop;
  }

  void visit_state(const StateVisitor& visit) override {
    std::map<std::string, at::Tensor> kept;
    if (!losses_.empty()) kept["losses"] = at::tensor(losses_, at::kDouble);
    visit("high", high_);
    visit("window", kept);
    const auto found = kept.find("losses");
    if (found == kept.end()) return;
    const std::span<const double> values = host::values<double>(found->second);
    losses_.assign(values.begin(), values.end());
  }

 private:
  // "": it goes on.
  std::string reason(std::int64_t step, double loss) {
    if (std::ssize(losses_) < config_.window) return {};
    double mean = 0;
    for (const double one : losses_) mean += one / static_cast<double>(losses_.size());
    high_ = loss >= config_.multiplier * mean ? high_ + 1 : 0;
    if (high_ > static_cast<double>(config_.patience))
      return fmt::format(
          "the loss {:.4g} is {} times the mean {:.4g} of the {} steps before, or more; so have been {} "
          "steps in a row",
          loss, config_.multiplier, mean, config_.window, high_);
    const auto above = std::count_if(losses_.begin(), losses_.end(), [&](double one) { return one > config_.cap; });
    if (config_.cap > 0 && step >= 2 * config_.window && 2 * above >= config_.window)
      return fmt::format("the loss of {} of the {} steps before is above {}", above, config_.window, config_.cap);
    return {};
  }

  Config config_;
  std::vector<double> losses_;  // of the steps before
  double high_ = 0;             // steps in a row that were too high
};

}  // namespace

void register_loss_spike(Registries& hone) {
  hone.callbacks.add<LossSpike>("loss_spike", "End the run when its loss jumps up and stays there.");
}

}  // namespace hone::callbacks
