// Ends the run when an evaluation metric has stopped getting better.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "base/strings.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"

namespace hone::callbacks {
namespace {

class StopsEarly final : public Callback {
 public:
  struct Config {
    std::string metric = "eval_loss";
    std::int64_t patience = 3;
    double min_drop = 0.0;
    std::optional<bool> greater_is_better;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("metric", &C::metric, "Metric to watch."),
          field("patience", &C::patience, "Evaluations in a row without a new best before the run ends.", at_least(1)),
          field("min_drop", &C::min_drop, "Smallest fall, or rise where more is better, that counts as a new best.",
                at_least(0)),
          field("greater_is_better", &C::greater_is_better,
                "Whether more of the metric is better; default: as its evaluation says (of an accuracy, not of a "
                "loss).")};
    }
  };
  explicit StopsEarly(const Config& config) : config_(config) {}

  bool sees_gradients() const override { return false; }

  // What was best is of use while the same is measured.
  void on_training_start(const TrainView& view) override {
    const std::string now = what_is_measured(view), before = measured_.text();
    measured_ = config::Node::scalar(now, true);
    if (before.empty() || before == now || best_ == kNone) return;
    log::warning("early stopping: {} is not measured as it was before; what was best ({:.6g}) is left out of account",
                 config_.metric, best_);
    best_ = kNone;
    waited_ = 0;
  }

  Action on_evaluation_end(const TrainView& view, Metrics& metrics) override {
    const auto found = metrics.find(config_.metric);
    if (found == metrics.end()) return Action::go_on;  // of a set that is measured at other steps
    const double value = found->second;
    const bool rises = this->rises(view);
    if (is_new_best(value, rises)) {
      best_ = value;
      waited_ = 0;
      return Action::go_on;
    }
    waited_ += 1;
    if (waited_ < static_cast<double>(config_.patience)) return Action::go_on;
    log::info("early stopping at step {}: {} has not {} {:.6g} for {} evaluations", view.step, config_.metric,
              rises ? "risen above" : "fallen below", best_, config_.patience);
    return Action::stop;
  }

  std::string watches() const override { return config_.metric; }

  void visit_state(const StateVisitor& visit) override {
    visit("best", best_);
    visit("waited", waited_);
    visit("measured", measured_);
  }

 private:
  bool rises(const TrainView& view) const {
    const auto& names = view.greater_is_better;
    return config_.greater_is_better.value_or(std::find(names.begin(), names.end(), config_.metric) != names.end());
  }

  // The metric, which way is better, and the rows that it is of.
  std::string what_is_measured(const TrainView& view) const {
    std::string of, rows;
    for (const auto& [prefix, all] : view.measured_rows)
      if (config_.metric.starts_with(prefix) && prefix.size() > of.size()) of = prefix, rows = all;
    return fmt::format("{} {} {}", config_.metric, rises(view) ? "rises" : "falls", rows);
  }

  bool is_new_best(double value, bool rises) const {
    if (best_ == kNone) return rises ? value > -kNone : value < kNone;
    return rises ? value > best_ + config_.min_drop : value < best_ - config_.min_drop;
  }

  static constexpr double kNone = std::numeric_limits<double>::infinity();  // no evaluation yet
  Config config_;
  double best_ = kNone;
  double waited_ = 0;
  config::Node measured_;
};

}  // namespace

void register_early_stopping(Registries& hone) {
  hone.callbacks.add<StopsEarly>("early_stopping", "Stop when a metric stops getting better.");
}

}  // namespace hone::callbacks
