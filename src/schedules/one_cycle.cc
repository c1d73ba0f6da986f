// Up to the peak and down again along half cosines (Smith and Topin, 2018, arXiv:1708.07120), as torch's OneCycleLR.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/schedule.h"

namespace hone::schedules {
namespace {

// From one value to another along half a cosine.
double between(double from, double to, double progress) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * progress));
}

class OneCycle final : public Schedule {
 public:
  struct Config {
    double warmup_ratio = 0.3, start_ratio = 0.04, final_ratio = 4e-6;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("warmup_ratio", &C::warmup_ratio, "Share of all steps in which it rises to the peak.",
                {.low = 0, .high = 1}),
          field("start_ratio", &C::start_ratio, "First learning rate as a share of the peak.", {.low = 0, .high = 1}),
          field("final_ratio", &C::final_ratio, "Last learning rate as a share of the peak.", {.low = 0, .high = 1})};
    }
  };
  explicit OneCycle(const Config& config) : config_(config) {}

  // The peak and the end are at the last step of their phases, counted from 0.
  double factor(std::int64_t step, std::int64_t steps) const override {
    const double now = static_cast<double>(step), end = static_cast<double>(steps) - 1;
    const double peak = config_.warmup_ratio * static_cast<double>(steps) - 1;
    if (now <= peak) return between(config_.start_ratio, 1, now / peak);
    return between(1, config_.final_ratio, std::min(1.0, (now - peak) / std::max(1.0, end - peak)));
  }
  void check(std::int64_t steps, Problems& problems) const override {
    problems.require(config_.warmup_ratio * static_cast<double>(steps) > 1, "warmup_ratio",
                     "it rises in no step: expected more of them");
  }

 private:
  Config config_;
};

}  // namespace

void register_one_cycle(Registries& hone) {
  hone.schedules.add<OneCycle>("one_cycle", "Half a cosine up to the peak, half a cosine down.");
}

}  // namespace hone::schedules
