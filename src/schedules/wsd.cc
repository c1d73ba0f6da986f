// Warm-up, stable, decay over the last steps.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/schedule.h"
#include "schedules/warmup.h"

namespace hone::schedules {
enum class DecayShape { linear, cosine, one_minus_sqrt };
}  // namespace hone::schedules

// HF's names.
template <>
inline constexpr auto hone::config::enum_names<hone::schedules::DecayShape> =
    std::to_array<std::pair<hone::schedules::DecayShape, std::string_view>>(
        {{hone::schedules::DecayShape::linear, "linear"},
         {hone::schedules::DecayShape::cosine, "cosine"},
         {hone::schedules::DecayShape::one_minus_sqrt, "1-sqrt"}});

namespace hone::schedules {
namespace {

double decayed(DecayShape shape, double progress) {
  if (shape == DecayShape::linear) return 1.0 - progress;
  if (shape == DecayShape::one_minus_sqrt) return 1.0 - std::sqrt(progress);
  return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

// Unlike the others it warms up from final_ratio, as transformers' get_wsd_schedule does.
class Wsd final : public Schedule {
 public:
  struct Config : Falling {
    using Base = Falling;
    std::int64_t decay_steps = 0;
    DecayShape decay_type = DecayShape::cosine;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          Falling::fields(),
          std::tuple{
              field("decay_steps", &C::decay_steps, "Length of the decay; 0 = a tenth of all steps.", at_least(0)),
              field("decay_type", &C::decay_type, "Shape of the decay.")});
    }
    void check(std::int64_t steps, Problems& problems) const {
      Falling::check(steps, problems);
      check_decay("decay_steps", decay_steps, steps, problems);
    }
  };
  explicit Wsd(const Config& config) : config_(config) {}

  double factor(std::int64_t at, std::int64_t all) const override {
    const double step = static_cast<double>(at), steps = static_cast<double>(all), warmup = config_.steps(all);
    const double decay = config_.decay_steps > 0 ? static_cast<double>(config_.decay_steps) : std::ceil(steps / 10);
    const double stable_end = std::max(warmup, steps - decay);
    double share = 1.0;
    if (step < warmup)
      share = config_.risen(step, warmup);
    else if (step >= stable_end)
      share = step < stable_end + decay ? decayed(config_.decay_type, (step - stable_end) / decay) : 0.0;
    return std::max(0.0, share * (1.0 - config_.final_ratio) + config_.final_ratio);
  }

  void check(std::int64_t steps, Problems& problems) const override {
    config_.check(steps, problems);
  }

 private:
  Config config_;
};

}  // namespace

void register_wsd(Registries& hone) {
  hone.schedules.add<Wsd>("wsd", "Warm-up, stable, then decay over the last decay_steps.");
}

}  // namespace hone::schedules
