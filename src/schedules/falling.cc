// From the peak down to a share of it at the last step: along a straight line, half a cosine, several of them, a power,
// or an exponential.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/schedule.h"
#include "schedules/warmup.h"

namespace hone::schedules {
namespace {

double half_cosine(double progress) { return 0.5 * (1.0 + std::cos(std::numbers::pi * progress)); }

// Options of its own, and left(progress): the share of the way down that is left when a share of the steps is done.
struct Linear : FallingWithin {
  using Base = FallingWithin;
  double left(double progress) const { return 1.0 - progress; }
};
struct Cosine : FallingWithin {
  using Base = FallingWithin;
  double left(double progress) const { return half_cosine(progress); }
};
struct Restarts : FallingWithin {
  using Base = FallingWithin;
  std::int64_t cycles = 1;
  static constexpr auto fields() {
    return std::tuple_cat(FallingWithin::fields(),
                          std::tuple{field("cycles", &Restarts::cycles,
                                           "How often it falls; each time it begins at the peak again.", at_least(1))});
  }
  double left(double progress) const {
    return progress >= 1 ? 0.0 : half_cosine(std::fmod(static_cast<double>(cycles) * progress, 1.0));
  }
};
struct Polynomial : FallingWithin {
  using Base = FallingWithin;
  double power = 1.0;
  static constexpr auto fields() {
    return std::tuple_cat(
        FallingWithin::fields(),
        std::tuple{field("power", &Polynomial::power, "Of the share of steps that is left; 1 = linear.", at_least(0))});
  }
  double left(double progress) const { return std::pow(std::max(0.0, 1.0 - progress), power); }
};

// Reflected exponential (Chen et al., 2021, arXiv:2107.04197), as Axolotl has it.
struct Rex : FallingWithin {
  using Base = FallingWithin;
  double left(double progress) const {
    const double still = std::max(0.0, 1.0 - progress);
    return still / (0.1 + 0.9 * still);
  }
};

template <class Shape>
class Fall final : public Schedule {
 public:
  using Config = Cooled<Shape>;
  explicit Fall(const Config& config) : config_(config) {}

  double factor(std::int64_t step, std::int64_t steps) const override {
    return warmed(config_, step, steps, [&](double progress, double) {
      return std::max(0.0, config_.left(progress)) * (1.0 - config_.final_ratio) + config_.final_ratio;
    });
  }
  void check(std::int64_t steps, Problems& problems) const override { config_.check(steps, problems); }

 private:
  Config config_;
};

// Each step takes the same share off.
class Exponential final : public Schedule {
 public:
  struct Own : Warmup {
    using Base = Warmup;
    double final_ratio = 0.1;
    static constexpr auto fields() {
      return std::tuple_cat(
          Warmup::fields(),
          std::tuple{field("final_ratio", &Own::final_ratio,
                           "Last learning rate as a share of the peak; above 0, which it would never reach.",
                           {.low = 0, .high = 1})});
    }
    void validate(Problems& problems) const {
      Warmup::validate(problems);
      problems.require(final_ratio > 0, "final_ratio", "expected above 0");
    }
  };
  using Config = Cooled<Own>;
  explicit Exponential(const Config& config) : config_(config) {}

  double factor(std::int64_t step, std::int64_t steps) const override {
    return warmed(config_, step, steps,
                  [&](double progress, double) { return std::pow(config_.final_ratio, std::min(1.0, progress)); });
  }
  void check(std::int64_t steps, Problems& problems) const override { config_.check(steps, problems); }

 private:
  Config config_;
};

// As transformers' get_inverse_sqrt_schedule.
class InverseSqrt final : public Schedule {
 public:
  struct Own : Warmup {
    using Base = Warmup;
    std::optional<std::int64_t> timescale;
    static constexpr auto fields() {
      return std::tuple_cat(Warmup::fields(),
                            std::tuple{field("timescale", &Own::timescale,
                                             "Steps behind the warm-up, three times which halve the learning rate; "
                                             "default: the warm-up's, or 10000 without one.",
                                             at_least(1))});
    }
  };
  using Config = Cooled<Own>;
  explicit InverseSqrt(const Config& config) : config_(config) {}

  double factor(std::int64_t step, std::int64_t steps) const override {
    const double warmup = config_.steps(steps);
    const double scale = config_.timescale ? static_cast<double>(*config_.timescale) : warmup > 0 ? warmup : 10000.0;
    return warmed(config_, step, steps, [&](double, double since) { return 1.0 / std::sqrt((since + scale) / scale); });
  }
  void check(std::int64_t steps, Problems& problems) const override { config_.check(steps, problems); }

 private:
  Config config_;
};

}  // namespace

void register_falling(Registries& hone) {
  hone.schedules.add<Fall<Cosine>>("cosine", "Half a cosine down to final_ratio.");
  hone.schedules.add<Fall<Restarts>>("cosine_with_restarts", "Half a cosine down to final_ratio, several times.");
  hone.schedules.add<Exponential>("exponential", "The same share off in each step, down to final_ratio.");
  hone.schedules.add<InverseSqrt>("inverse_sqrt", "With the root of the steps, without an end.");
  hone.schedules.add<Fall<Linear>>("linear", "A straight line down to final_ratio.");
  hone.schedules.add<Fall<Polynomial>>("polynomial",
                                       "A power of the share of steps that is left, down to final_ratio.");
  hone.schedules.add<Fall<Rex>>("rex", "Slowly at first and steeply in the end, down to final_ratio.");
}

}  // namespace hone::schedules
