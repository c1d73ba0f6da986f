// Learning-rate schedules, with the values of transformers' get_scheduler.
#include <cmath>
#include <numbers>

#include "hone/optimizer.h"

namespace hone {
namespace {

// From the end of warm-up (0) to the last step (1); past it for steps beyond the end.
double cosine(double progress) { return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * progress))); }
double linear(double progress) { return std::max(0.0, 1.0 - progress); }
double constant(double) { return 1.0; }

double decayed(DecayShape shape, double progress) {
  if (shape == DecayShape::linear) return 1.0 - progress;
  return shape == DecayShape::cosine ? cosine(progress) : 1.0 - std::sqrt(progress);
}

// Warm-up, stable, decay. Unlike the others it warms up from final_ratio, as transformers' get_wsd_schedule does.
double wsd(const ScheduleConfig& config, double step, double warmup, double steps) {
  const double decay = config.decay_steps > 0 ? static_cast<double>(config.decay_steps) : std::ceil(steps / 10);
  const double stable_end = std::max(warmup, steps - decay);
  double share = 1.0;
  if (step < warmup)
    share = step / std::max(1.0, warmup);
  else if (step >= stable_end)
    share = step < stable_end + decay ? decayed(config.decay_type, (step - stable_end) / decay) : 0.0;
  return std::max(0.0, share * (1.0 - config.final_ratio) + config.final_ratio);
}

struct Shape {
  ScheduleKind type;
  double (*share)(double progress);
};
constexpr Shape kShapes[] = {
    {ScheduleKind::constant, constant}, {ScheduleKind::linear, linear}, {ScheduleKind::cosine, cosine}};

}  // namespace

void ScheduleConfig::validate(Problems& problems) const {
  problems.require(!warmup_ratio || warmup_steps == 0, "warmup_ratio", "not together with warmup_steps");
  problems.require(decay_type == DecayShape::cosine || type == ScheduleKind::wsd, "decay_type", "only with type: wsd");
  problems.require(decay_steps == 0 || type == ScheduleKind::wsd, "decay_steps", "only with type: wsd");
  problems.require(final_ratio == 0 || type != ScheduleKind::constant, "final_ratio", "not with type: constant");
}

double schedule_factor(const ScheduleConfig& config, std::int64_t step, std::int64_t steps) {
  const double now = static_cast<double>(step), all = static_cast<double>(steps);
  const double warmup =
      config.warmup_ratio ? std::ceil(*config.warmup_ratio * all) : static_cast<double>(config.warmup_steps);
  if (config.type == ScheduleKind::wsd) return wsd(config, now, warmup, all);
  if (now < warmup) return now / std::max(1.0, warmup);
  const double progress = (now - warmup) / std::max(1.0, all - warmup);
  for (const Shape& shape : kShapes)
    if (shape.type == config.type) {
      const double share = shape.share(progress);
      return config.type == ScheduleKind::constant ? share : share * (1.0 - config.final_ratio) + config.final_ratio;
    }
  throw Error(ErrorKind::bug, "a schedule type has no shape");
}

}  // namespace hone
