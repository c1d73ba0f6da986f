// Another schedule that again and again falls almost to zero and warms up anew, as ReLoRA's "jagged cosine"
// (https://arxiv.org/abs/2307.05695) and as Axolotl's JaggedLRRestartScheduler.
#include <fmt/format.h>

#include <algorithm>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/schedule.h"

namespace hone::schedules {
namespace {

struct JaggedConfig {
  std::optional<std::int64_t> restart_steps;
  std::int64_t restart_warmup_steps = 10, restart_anneal_steps = 1;
  double restart_ratio = 0.001;
  config::Choice<Schedule> schedule{"cosine", nullptr};
  static constexpr auto fields() {
    using C = JaggedConfig;
    return std::tuple{
        field("restart_steps", &C::restart_steps, "Steps from one restart to the next.", at_least(1)),
        field("restart_warmup_steps", &C::restart_warmup_steps,
              "Steps of linear warm-up behind each restart; the first warm-up is the inner schedule's.", at_least(0)),
        field("restart_anneal_steps", &C::restart_anneal_steps,
              "Steps before each restart, over which the learning rate falls along a straight line; 1 = it drops.",
              at_least(1)),
        field("restart_ratio", &C::restart_ratio,
              "Learning rate at a restart, as a share of what the inner schedule has there.", {.low = 0, .high = 1}),
        field("schedule", &C::schedule, "The inner schedule.")};
  }
  void validate(Problems& problems) const {
    problems.require(schedule.type != "jagged", "schedule", "got jagged, expected a schedule without restarts");
    problems.require(restart_steps.has_value(), "restart_steps", "missing: the steps from one restart to the next");
    if (!restart_steps) return;
    problems.require(restart_warmup_steps + restart_anneal_steps <= *restart_steps, "restart_steps",
                     fmt::format("got {}, expected at least the {} of restart_warmup_steps and restart_anneal_steps",
                                 *restart_steps, restart_warmup_steps + restart_anneal_steps));
    problems.require(restart_warmup_steps > 0 || restart_anneal_steps > 1, "restart_warmup_steps",
                     "got 0, expected at least 1, or restart_anneal_steps of at least 2: else nothing restarts");
  }
};

class Jagged final : public Schedule {
 public:
  using Config = JaggedConfig;
  explicit Jagged(const Config& config) : config_(config), inner_(registries().schedules.make(config.schedule)) {}

  double factor(std::int64_t step, std::int64_t steps) const override {
    return inner_->factor(step, steps) * scale(step);
  }
  void check(std::int64_t steps, Problems& problems) const override {
    problems.require(*config_.restart_steps < steps, "restart_steps",
                     fmt::format("got {}, expected below the {} steps of the run", *config_.restart_steps, steps));
    const Problems::Scope below(problems, "schedule.");
    inner_->check(steps, problems);
  }

 private:
  double scale(std::int64_t step) const {
    const std::int64_t every = *config_.restart_steps, warmup = config_.restart_warmup_steps;
    const std::int64_t anneal = config_.restart_anneal_steps, since = step % every;
    double share = 1.0;
    if (step >= every && since < warmup)
      share = static_cast<double>(since) / static_cast<double>(warmup);
    else if (since > every - anneal)
      share = static_cast<double>(every - since) / static_cast<double>(anneal);
    return share * (1.0 - config_.restart_ratio) + config_.restart_ratio;
  }

  Config config_;
  std::unique_ptr<Schedule> inner_;
};

}  // namespace

void register_jagged(Registries& hone) {
  hone.schedules.add<Jagged>("jagged", "Another schedule, with restarts from almost zero.");
}

}  // namespace hone::schedules
