// Ends the run when an evaluation metric has stopped falling.
#include <fmt/format.h>

#include <limits>

#include "base/log.h"
#include "base/strings.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"

namespace hone::callbacks {
namespace {

class EarlyStopping final : public Callback {
 public:
  struct Config {
    std::string metric = "eval_loss";
    std::int64_t patience = 3;
    double min_drop = 0.0;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("metric", &C::metric, "Metric to watch; lower is better."),
          field("patience", &C::patience, "Evaluations in a row without a new best before the run ends.", at_least(1)),
          field("min_drop", &C::min_drop, "Smallest fall that counts as a new best.", at_least(0))};
    }
  };
  explicit EarlyStopping(const Config& config) : config_(config) {}

  Action on_evaluation_end(const TrainView& view, const Metrics& metrics) override {
    const double value = watched(metrics);
    if (value < best_ - config_.min_drop) {
      best_ = value;
      waited_ = 0;
      return Action::go_on;
    }
    waited_ += 1;
    if (waited_ < static_cast<double>(config_.patience)) return Action::go_on;
    log::info("early stopping at step {}: {} has not fallen below {:.6g} for {} evaluations", view.step, config_.metric,
              best_, config_.patience);
    return Action::stop;
  }

  std::string watches() const override { return config_.metric; }

  void visit_state(const StateVisitor& visit) override {
    visit("best", best_);
    visit("waited", waited_);
  }

 private:
  double watched(const Metrics& metrics) const {
    const auto found = metrics.find(config_.metric);
    if (found != metrics.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [name, value] : metrics) names.push_back(name);
    throw Error(ErrorKind::config,
                fmt::format("callbacks: early_stopping watches \"{}\", which no evaluation gives; there is {}",
                            config_.metric, list_names(names)));
  }

  Config config_;
  double best_ = std::numeric_limits<double>::infinity();
  double waited_ = 0;
};

}  // namespace

void register_early_stopping(Registries& hone) {
  hone.callbacks.add<EarlyStopping>("early_stopping", "Stop when a metric stops falling.");
}

}  // namespace hone::callbacks
