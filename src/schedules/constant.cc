// The same learning rate from warm-up to the end.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/schedule.h"
#include "schedules/warmup.h"

namespace hone::schedules {
namespace {

class Constant final : public Schedule {
 public:
  struct Config {
    std::int64_t warmup_steps = 0;
    std::optional<double> warmup_ratio;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("warmup_steps", &C::warmup_steps, "Steps of linear warm-up from zero.", at_least(0)),
          field("warmup_ratio", &C::warmup_ratio, "Warm-up as a share of all steps; not together with warmup_steps.",
                {.low = 0, .high = 1})};
    }
    Warmup warmup() const { return {warmup_steps, warmup_ratio}; }
    void validate(Problems& problems) const { warmup().validate(problems); }
  };
  explicit Constant(const Config& config) : warmup_(config.warmup()) {}

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
