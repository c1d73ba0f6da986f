// The training loop.
#include "train/trainer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/log.h"
#include "base/sections.h"
#include "base/signals.h"
#include "hone/random.h"
#include "hone/registry.h"

namespace hone::training {

Summary Trainer::run() {
  start();
  while (!done()) {
    const StepReport report = train_step();
    after_step(report);
    if (due(recipe_.trainer.log_every) || state_.step == steps_) log();
    if (state_.evaluation_due && !interrupted()) evaluate();
    if (save_due()) maybe_save();
  }
  return finish();
}

StepReport Trainer::train_step() {
  const Stopwatch watch;
  StepReport report;
  for (Group& group : objective_->prepare(next_group())) update(group, report);
  state_.step += 1;
  state_.tokens += report.tokens;
  state_.window.add(report);
  step_seconds_ += watch.seconds();
  return report;
}

void Trainer::update(Group& group, StepReport& report) {
  std::map<std::string, double> weights;  // per term, over all micro-batches
  for (const Batch& batch : group)
    for (const auto& [name, weight] : objective_->weights(batch)) weights[name] += weight;
  losses_.clear();
  for (const Batch& batch : group) backward(batch, weights, report);
  report.learning_rate = optimizer_->learning_rate(state_.step, steps_);
  report.skipped = report.terms.empty();
  if (report.skipped) return;
  report.grad_norm = updater_->gradient_norm();
  check_finite(group, report, losses_);
  if (!parts_.options.gradients.empty() && state_.step + 1 == steps_)
    write_tensors(parts_.run.folder().env(), parts_.options.gradients,
                  [&](const auto& visit) { updater_->each_gradient(visit); });
  updater_->update(state_.step + 1, report.learning_rate, report.grad_norm, recipe_.trainer.max_grad_norm);
}

void Trainer::backward(const Batch& batch, const std::map<std::string, double>& weights, StepReport& report) {
  report.tokens += batch.tokens;
  report.supervised += batch.supervised;
  const auto own = objective_->weights(batch);
  if (std::all_of(own.begin(), own.end(), [](const auto& term) { return term.second == 0; })) {
    losses_.push_back(0);  // nothing to learn from this micro-batch
    return;
  }
  Pass pass(batch);
  pass.training = true;
  pass.seed = Random(recipe_.run.seed, fmt::format("pass/{}", state_.step)).bits(losses_.size());
  pass.checkpoint_blocks = recipe_.trainer.checkpoint_blocks;
  const LossTerms result = objective_->loss(model_, batch, pass);
  Tensor loss;
  for (const LossTerm& term : result.terms) {
    const Tensor mean = term.sum / weights.at(term.name);  // the only division there is
    loss = loss.defined() ? loss + mean : mean;
  }
  loss.backward();
  updater_->add_gradients();
  report.add(result);
  losses_.push_back(loss.item<double>());
}

Group Trainer::next_group() {
  const sections::Timed section(sections::Section::data);
  Group group;
  for (const HostBatch& host : loader_->next()) group.push_back(to_batch(host));
  return group;
}

bool Trainer::interrupted() const { return parts_.options.handle_signals && StopSignal::stop_requested(); }
double Trainer::epoch() const { return loader_->epoch_at(state_.step); }
TrainView Trainer::view() { return {state_.step, steps_, state_.tokens, epoch(), model_, folder_}; }

}  // namespace hone::training
