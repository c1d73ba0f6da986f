// What passes have given, on its way to the host, and what comes of it.
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/spans.h"
#include "tensor/host.h"
#include "train/spikes.h"
#include "train/stepper.h"

namespace hone::training {

Tensor Stepper::norm_there() {
  const TrainerSection& trainer = recipe_.trainer;
  if (trainer.max_grad_value > 0 || trainer.skip_spikes.sigma > 0 || !hooks.only_checks()) return {};
  return frame_.norm_there();
}

// One wait for all numbers. With a norm the update is made in front of it.
void Stepper::ask(Work& work, const Tensor& norm) {
  std::vector<Tensor> scalars;
  if (norm.defined()) scalars.push_back(norm);
  for (const Passed& one : work.passed)
    for (const LossTerm& term : one.terms.terms) scalars.push_back(term.sum);
  work.checked = scalars.size();
  for (const Passed& one : work.passed) {
    if (one.loss.defined()) scalars.push_back(one.loss);
    for (const MeasuredMean& mean : one.terms.means) scalars.insert(scalars.end(), {mean.sum, mean.weight});
  }
  work.asked.emplace(scalars);
  work.has_norm = norm.defined();
  if (!work.has_norm) return;
  const auto checked = static_cast<std::int64_t>(work.checked);
  frame_.update_there(norm, work.asked->there().narrow(0, 0, checked), recipe_.trainer.max_grad_norm);
}

// Returns the losses of the micro-batches, 0 of those that were passed over.
std::vector<double> Stepper::read(Work& work) const {
  const std::vector<double> numbers = work.asked->numbers();
  std::span<const double> sums = std::span(numbers).subspan(work.has_norm ? 1 : 0),
                          others = std::span(numbers).subspan(work.checked);
  if (work.has_norm) work.report.grad_norm = numbers[0];
  std::vector<double> losses;
  for (const Passed& one : work.passed) {
    losses.push_back(one.loss.defined() ? others[0] : 0);
    if (!one.loss.defined()) continue;
    const std::size_t terms = one.terms.terms.size(), means = 2 * one.terms.means.size();
    work.report.add(one.terms, sums.first(terms), others.subspan(1, means), work.amounts.sums);
    sums = sums.subspan(terms), others = others.subspan(1 + means);
  }
  return losses;
}

// Of a run in fp16: what is finite in itself became too large by the factor of the loss, which is made smaller.
bool Stepper::overflows(StepReport& report) {
  if (recipe_.trainer.precision != Precision::fp16) return false;
  LossScale& scale = frame_.run.loss_scale;
  report.metrics["loss_scale"] = {scale.factor, 1, LogMode::last};
  return std::isfinite(report.loss()) && !std::isfinite(report.grad_norm) && scale.shrink();
}

StepReport Stepper::decide(Work& work) {
  RunState& state = frame_.run;
  StepReport& report = work.report;
  const std::vector<double> losses = read(work);
  if (work.has_norm) frame_.told_norm(report.grad_norm);
  {
    const spans::Span span("ranks");
    report.grad_norm = frame_.gradient_norm();  // first: some of the sums are on their way
    report.total(world_);
    asked("measure_step", [&] { objective_->measure_step(work.amounts.sums, report.metrics); });
    state.objective = objective_->state();
  }
  if (overflows(report)) {
    report.overflows = 1;
    frame_.leave_out();
    return report;
  }
  const auto find_bad = [this, &work] { return first_bad(work.group, work.passes, seeds(work.passes)); };
  if (!hooks.before({work.group, losses, report, find_bad})) {
    report.not_finite = 1;
    frame_.leave_out();
    return report;
  }
  report.spikes = is_spike(recipe_.trainer.skip_spikes, report.grad_norm, state.norms) ? 1 : 0;
  if (report.spikes > 0) {
    frame_.leave_out();
    return report;
  }
  const spans::Span span("update");
  frame_.update({recipe_.trainer.max_grad_norm, recipe_.trainer.max_grad_value});
  update_buffers(work.passed);
  hooks.after();
  const bool estimated =
      estimate_curvature(work.group, work.passes, work.amounts, static_cast<double>(report.supervised));
  report.lost_estimates = estimated ? 0 : 1;
  if (recipe_.trainer.precision == Precision::fp16)
    estimated ? state.loss_scale.grow(recipe_.trainer.loss_scale) : static_cast<void>(state.loss_scale.shrink());
  return report;
}

// Where the device updates by itself, and what else belongs to an update needs no numbers. An objective that is not
// recordable may have prepared the next step by how many updates there were.
bool Stepper::may_read_late(const Work& work) const {
  const auto observes = [](const Passed& one) { return !one.observed.empty(); };
  return work.has_norm && hooks.reads_late() && world_.size() == 1 && trained_.empty() &&
         frame_.run.own_updates.empty() && recipe_.trainer.precision != Precision::fp16 &&
         frame_.optimizer().curvature_every() == 0 && objective_->is_recordable() &&
         !resources_.moves_after(frame_.run.step + 1) &&
         std::none_of(work.passed.begin(), work.passed.end(), observes);
}

bool Stepper::settle() {
  if (!unread_) return true;
  Unread late = std::move(*std::exchange(unread_, std::nullopt));
  const StepReport before = late.work.report;
  read(late.work);
  StepReport& report = late.work.report;
  const bool made = std::isfinite(report.loss()) && std::isfinite(report.grad_norm);
  if (made) {
    frame_.last_norm = report.grad_norm;
    asked("measure_step", [&] { objective_->measure_step(late.work.amounts.sums, report.metrics); });
  } else {
    report = before;
    make_again(late);
  }
  StepReport step;
  step.skipped = true;
  count(report, step);
  tell(step);
  hooks.late(step);
  return made;
}

// What is not finite is found out with the gradients that it gave; the weights are still those of its passes.
void Stepper::make_again(Unread& late) {
  RunState& state = frame_.run;
  frame_.take_back();
  std::swap(state.step, late.step), std::swap(state.tokens, late.tokens);
  make_passes(late.work);
  ask(late.work, {});
  decide(late.work);
  std::swap(state.step, late.step), std::swap(state.tokens, late.tokens);
}

}  // namespace hone::training
