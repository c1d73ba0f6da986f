// A straight fall to the last step.
#include <algorithm>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/schedule.h"
#include "schedules/warmup.h"

namespace hone::schedules {
namespace {

class Linear final : public Schedule {
 public:
  using Config = FallingConfig;
  explicit Linear(const Config& config) : config_(config) {}

  double factor(std::int64_t step, std::int64_t steps) const override {
    return warmed(config_.warmup(), step, steps, [&](double progress) {
      const double share = 1.0 - progress;
      return std::max(0.0, share) * (1.0 - config_.final_ratio) + config_.final_ratio;
    });
  }
  void check(std::int64_t steps, Problems& problems) const override { config_.warmup().check(steps, problems); }

 private:
  Config config_;
};

}  // namespace

void register_linear(Registries& hone) {
  hone.schedules.add<Linear>("linear", "A straight line down to final_ratio.");
}

}  // namespace hone::schedules
