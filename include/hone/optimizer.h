// Optimizers: one update of all weights per step, fp32 state, flat and deterministic.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/config.h"
#include "hone/module.h"

namespace hone {

// A weight as the optimizer sees it: its name, the fp32 master (the weight itself in an fp32 run) and its summed
// gradient.
struct OptimizedWeight {
  std::string name;
  Weight* weight = nullptr;
  Tensor master;    // fp32 (fp64 in an fp64 run)
  Tensor gradient;  // same dtype as master; summed over the step's micro-batches
  Tensor rounded;   // the bf16 weight of a bf16 run; undefined: the master is the weight
  bool decays = true;
};

// Plug-in (src/optim). The trainer owns masters and gradients; an optimizer owns its moments.
class HONE_API Optimizer {
 public:
  static constexpr std::string_view kInterface = "optimizer";
  virtual ~Optimizer() = default;
  virtual void attach(std::vector<OptimizedWeight>& weights) = 0;  // allocates the state, zero
  // Updates masters in place, and writes them to `rounded` where there is one. `step` counts from 1; gradient_scale multiplies every gradient (clipping).
  virtual void update(std::vector<OptimizedWeight>& weights, std::int64_t step, double learning_rate,
                      double gradient_scale) = 0;
  // Every state tensor with a name such as "exp_avg.model.norm.weight", to be saved and restored.
  virtual void each_state(const std::function<void(const std::string&, Tensor&)>& visit) = 0;
  // Learning rate of the update number `step`, counted from 0, of `steps` in all; a function of the step alone.
  virtual double learning_rate(std::int64_t step, std::int64_t steps) const = 0;
};

enum class ScheduleKind { constant, linear, cosine, wsd };
template <>
inline constexpr auto config::enum_names<ScheduleKind> =
    std::to_array<std::pair<ScheduleKind, std::string_view>>({{ScheduleKind::constant, "constant"},
                                                              {ScheduleKind::linear, "linear"},
                                                              {ScheduleKind::cosine, "cosine"},
                                                              {ScheduleKind::wsd, "wsd"}});

// How wsd decays; HF's names.
enum class DecayShape { linear, cosine, one_minus_sqrt };
template <>
inline constexpr auto config::enum_names<DecayShape> = std::to_array<std::pair<DecayShape, std::string_view>>(
    {{DecayShape::linear, "linear"}, {DecayShape::cosine, "cosine"}, {DecayShape::one_minus_sqrt, "1-sqrt"}});

// Learning rate as a function of the step alone.
struct ScheduleConfig {
  ScheduleKind type = ScheduleKind::cosine;
  std::int64_t warmup_steps = 0;
  std::optional<double> warmup_ratio;
  double final_ratio = 0.0;
  std::int64_t decay_steps = 0;
  DecayShape decay_type = DecayShape::cosine;
  static constexpr std::string_view kShorthand = "type";
  static constexpr auto fields() {
    using C = ScheduleConfig;
    return std::tuple{
        field("type", &C::type, "Shape after warm-up; wsd = warm-up, stable, then decay over the last decay_steps."),
        field("warmup_steps", &C::warmup_steps, "Steps of linear warm-up from zero.", at_least(0)),
        field("warmup_ratio", &C::warmup_ratio, "Warm-up as a share of all steps; not together with warmup_steps.",
              {.low = 0, .high = 1}),
        field("final_ratio", &C::final_ratio, "Last learning rate as a share of the peak.", {.low = 0, .high = 1}),
        field("decay_steps", &C::decay_steps, "wsd only: length of the decay; 0 = a tenth of all steps.", at_least(0)),
        field("decay_type", &C::decay_type, "wsd only: shape of the decay.")};
  }
  HONE_API void validate(Problems& problems) const;
};
// Factor (0..1 of the peak) for the update number `step`, counted from 0, of `steps` in all. HF's formulas.
HONE_API double schedule_factor(const ScheduleConfig& config, std::int64_t step, std::int64_t steps);

}  // namespace hone
