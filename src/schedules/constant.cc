// The same learning rate from warm-up to cooldown.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/schedule.h"
#include "schedules/warmup.h"

namespace hone::schedules {
namespace {

class Constant final : public Schedule {
 public:
  using Config = Cooled<Warmup>;
  explicit Constant(const Config& config) : config_(config) {}

  double factor(std::int64_t step, std::int64_t steps) const override {
    return warmed(config_, step, steps, [](double, double) { return 1.0; });
  }
  void check(std::int64_t steps, Problems& problems) const override { config_.check(steps, problems); }

 private:
  Config config_;
};

}  // namespace

void register_constant(Registries& hone) { hone.schedules.add<Constant>("constant", "The peak, after warm-up."); }

}  // namespace hone::schedules
