// What of a run its parts say and may replace: the step, what is measured; and what it hands out.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/signals.h"
#include "hone/registry.h"
#include "train/context.h"
#include "train/layers.h"
#include "train/trainer.h"

namespace hone::training {

void Trainer::choose_measures() {
  const std::vector<EvalSet>& sets = parts_.inputs.evals;
  greater_is_better_ = greater_is_better(evaluations_, sets);
  measures_ = measures_of(recipe_, parts_.inputs, evaluations_);
  for (const auto& choice : recipe_.callbacks) {
    const std::string watched = registries().callbacks.make(choice)->watches();
    best_is_watched_ |= !watched.empty() && watched == measures_.best_by.metric;
    if (!watched.empty() && watched != measures_.best_by.metric && world_.is_first())
      log::warning("callback {} watches {}, but the best checkpoint is that by {}: trainer.save.best_by says which",
                   choice.type, watched, measures_.best_by.metric);
  }
}

std::optional<Worth> Trainer::worth() const {
  if (!evaluated_ || std::isnan(*evaluated_)) return std::nullopt;
  return Worth{{measures_.best_by.metric, *evaluated_, state_.step}, measures_.best_by.rises};
}

// Where a callback waits for a better one: its run means to have the best.
bool Trainer::is_new_best() const {
  const std::optional<Worth> now = worth();
  return now && best_is_watched_ && state_.step > 0 && is_better(*now, state_.best);
}

RunFunctions Trainer::functions() {
  RunFunctions part;
  part.training_step = [this](TrainState&, const Group& group) {
    made_ = stepper_->make(group);
    made_metrics_ = {
        {"loss", made_->loss()}, {"grad_norm", made_->grad_norm}, {"learning_rate", made_->learning_rate}};
    for (const auto& [name, metric] : made_->metrics) made_metrics_[name] = value_of(metric);
    return made_metrics_;
  };
  if (step_function_) part.training_step = step_function_;
  part.evaluations = evaluations_;
  part.world = world_;
  part.checkpoints = recipe_.trainer.save;
  return part;
}

void Trainer::replace(RunFunctions part) {
  for (std::size_t i = 0; i < part.evaluations.size(); ++i)
    if (!part.evaluations[i])
      throw Error(ErrorKind::usage, fmt::format("evaluations.{}: null; expected an evaluation", i));
  if (part.training_step) step_function_ = std::move(part.training_step);
  if (!part.evaluations.empty()) evaluations_ = std::move(part.evaluations);
  recipe_.trainer.save = part.checkpoints;
  config_yaml_ = recipe_file(recipe_);
  choose_measures();
  choose_files();
}

StepReport Trainer::train_step() {
  if (!step_function_) return stepper_->step();
  return stepper_->step([this](const Group& group) { return own_step(group); });
}

// Numbers that are not those of the trainer's own step are given as a callback gives them.
StepReport Trainer::own_step(const Group& group) {
  made_.reset();
  made_metrics_.clear();
  const std::int64_t updates = state_.updates, step = state_.step;
  StepReport report;
  report.learning_rate = frame_->learning_rate();
  const Metrics told = step_function_(*trained_, group);
  if (made_) {
    report = *std::exchange(made_, std::nullopt);
  } else {
    if (context_of(recipe_, world_.size()) != 1)
      throw Error(ErrorKind::config,
                  "parallel.context and parallel.tensor: a training_step of its own makes its passes of whole "
                  "micro-batches, which ranks would share; expected 1");
    const auto loss = told.find("loss");
    if (loss == told.end())
      throw Error(ErrorKind::usage, "training_step: its metrics have no \"loss\"");
    report.terms["loss"] = {loss->second, 1};
    made_metrics_["loss"] = loss->second;
    report.skipped = state_.updates == updates;
    if (report.skipped)
      report.why_skipped = state_.step != step ? "training_step has called skip_step()"
                                               : "training_step returned without apply_gradients() and skip_step()";
    report.grad_norm = report.skipped ? 0 : frame_->last_norm;
    Sums amounts{{"supervised", 0}, {"tokens", 0}};
    for (const Batch& batch : group) {
      amounts["supervised"] += static_cast<double>(batch.supervised);
      amounts["tokens"] += static_cast<double>(batch.tokens);
    }
    amounts = world_.total(std::move(amounts));
    report.supervised = static_cast<std::int64_t>(amounts.at("supervised"));
    report.tokens = static_cast<std::int64_t>(amounts.at("tokens"));
  }
  for (const auto& [name, value] : told)
    if (const auto own = made_metrics_.find(name); own == made_metrics_.end() || own->second != value)
      given_[name] = value;
  return report;
}

Metrics Trainer::measure(TrainState* state, const OnEvaluationStep& each) {
  if (parts_.inputs.evals.empty())
    throw Error(ErrorKind::usage, "evaluate: there is nothing to evaluate on")
        .hint("data.eval, or TrainerInputs::evals");
  if (!begun_) begin();
  EvaluateOptions options = evaluation(state ? *state->frame().model : model_);
  options.each = each;
  options.before = [](std::int64_t, std::int64_t) { return !StopSignal::stop_requested(); };
  const Frame& frame = state ? state->frame() : *frame_;
  std::optional<Updater::Evaluated> averages;
  if (frame.ready()) averages.emplace(frame.updater());
  auto found = evaluate_sets(*frame.model, evaluations_, parts_.inputs.evals, options);
  if (!found) throw Error(kStopped, "stopped while evaluating");
  return *std::move(found);
}

EvaluateOptions Trainer::evaluation(Model& model) {
  EvaluateOptions options = evaluate_options(recipe_, parts_.inputs);
  options.complete = [this, &model](Batch* batch) { stepper_->complete(batch, model); };
  options.world = world_;
  if (const int slices = slices_of(recipe_, world_.size()); slices > 1) {
    options.together = slices;
    options.own = [group = std::make_shared<const ContextGroup>(recipe_, world_)](const Batch& whole) {
      return group->own(whole);
    };
  }
  return options;
}

TrainState Trainer::take_state() {
  HONE_ASSERT(trained_.has_value());
  frame_->before_update = frame_->after_update = [] {};
  TrainState taken = std::move(*trained_);
  trained_.reset();
  return taken;
}

}  // namespace hone::training
