// One line for each thing that was left out.
#include "train/tell_step.h"

#include <fmt/format.h>

#include <string>

#include "base/log.h"

namespace hone::training {

void tell_left_out(const StepReport& report, const TrainerSection& trainer, const RunState& state) {
  const std::string factor = fmt::format("the loss is scaled by {} from now on", state.loss_scale.factor);
  if (report.skipped)
    log::warning("step {}: {}, no update", state.step,
                 report.why_skipped.empty() ? "no supervised token in any of its rows" : report.why_skipped);
  if (report.overflows > 0) log::warning("step {}: gradients too large for fp16: no update, {}", state.step, factor);
  const bool is_scaled = trainer.precision == Precision::fp16 && state.loss_scale.factor > 1;
  if (report.lost_estimates > 0)
    log::warning("step {}: gradients of drawn labels that are not finite: the optimizer keeps its older estimate{}",
                 state.step, is_scaled ? ", " + factor : "");
  if (report.spikes > 0)
    log::warning("step {}: gradients of norm {:.4g}, {} times the deviation of those before or more: no update",
                 state.step, report.grad_norm, trainer.skip_spikes.sigma);
}

}  // namespace hone::training
