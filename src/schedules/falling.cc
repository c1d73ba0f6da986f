// From the peak down to a share of it at the last step: along a straight line, or half a cosine.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/schedule.h"
#include "schedules/warmup.h"

namespace hone::schedules {
namespace {

double linear(double progress) { return 1.0 - progress; }
double cosine(double progress) { return 0.5 * (1.0 + std::cos(std::numbers::pi * progress)); }

// shape: the share of the way that is left when a share of it is done.
template <double (*shape)(double)>
class Fall final : public Schedule {
 public:
  using Config = Falling;
  explicit Fall(const Config& config) : config_(config) {}

  double factor(std::int64_t step, std::int64_t steps) const override {
    return warmed(config_, step, steps, [&](double progress) {
      return std::max(0.0, shape(progress)) * (1.0 - config_.final_ratio) + config_.final_ratio;
    });
  }
  void check(std::int64_t steps, Problems& problems) const override { config_.check(steps, problems); }

 private:
  Config config_;
};

}  // namespace

void register_falling(Registries& hone) {
  hone.schedules.add<Fall<cosine>>("cosine", "Half a cosine down to final_ratio.");
  hone.schedules.add<Fall<linear>>("linear", "A straight line down to final_ratio.");
}

}  // namespace hone::schedules
