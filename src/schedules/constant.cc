// The same learning rate from warm-up to the end.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/schedule.h"
#include "schedules/warmup.h"

namespace hone::schedules {
namespace {

class Constant final : public Schedule {
 public:
  using Config = Warmup;
  explicit Constant(const Config& config) : warmup_(config) {}

  double factor(std::int64_t step, std::int64_t steps) const override {
    return warmed(warmup_, step, steps, [](double) { return 1.0; });
  }
  void check(std::int64_t steps, Problems& problems) const override { warmup_.check(steps, problems); }

 private:
  Warmup warmup_;
};

}  // namespace

void register_constant(Registries& hone) { hone.schedules.add<Constant>("constant", "The peak, after warm-up."); }

}  // namespace hone::schedules
