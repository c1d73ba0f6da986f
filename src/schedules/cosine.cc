// Half a cosine from the peak to the last step.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/schedule.h"
#include "schedules/warmup.h"

namespace hone::schedules {
namespace {

class Cosine final : public Schedule {
 public:
  using Config = FallingConfig;
  explicit Cosine(const Config& config) : config_(config) {}

  double factor(std::int64_t step, std::int64_t steps) const override {
    return warmed(config_.warmup(), step, steps, [&](double progress) {
      const double share = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
      return std::max(0.0, share) * (1.0 - config_.final_ratio) + config_.final_ratio;
    });
  }
  void check(std::int64_t steps, Problems& problems) const override { config_.warmup().check(steps, problems); }

 private:
  Config config_;
};

}  // namespace

void register_cosine(Registries& hone) {
  hone.schedules.add<Cosine>("cosine", "Half a cosine down to final_ratio.");
}

}  // namespace hone::schedules
