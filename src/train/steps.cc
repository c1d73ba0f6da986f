// What happens between steps: the start, logging, evaluation, the end.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "hone/registry.h"
#include "train/evaluate.h"
#include "train/preflight.h"
#include "train/resume.h"
#include "train/trainer.h"

namespace hone::training {
namespace {

std::vector<std::unique_ptr<Tracker>> make_trackers(const Recipe& recipe, const RunInfo& info) {
  std::vector<std::unique_ptr<Tracker>> trackers;
  const auto& known = registries().trackers;
  bool terminal = false;
  for (const auto& choice : recipe.trackers) {
    terminal |= choice.type == "terminal";
    trackers.push_back(known.make(choice.type, *choice.options, info));
  }
  if (!terminal) trackers.push_back(known.make("terminal", *known.options("terminal"), info));
  return trackers;
}

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : parts_(std::move(parts)),
      recipe_(parts_.recipe),
      model_(*parts_.inputs.model),
      steps_(steps_of(recipe_, *parts_.inputs.train)),
      folder_(recipe_.run.folder),
      config_yaml_(config::to_yaml(write_recipe(recipe_))),
      hooks_(recipe_.callbacks) {
  fill_weights(parts_.inputs, recipe_, parts_.from.has_value());
  const Registries& all = registries();
  objective_ = all.objectives.make(recipe_.objective.type, *recipe_.objective.options, resources_);
  optimizer_ = all.optimizers.make(recipe_.optimizer.type, *recipe_.optimizer.options);
  updater_ = std::make_unique<Updater>(model_, *optimizer_, recipe_.trainer.precision);
  const TrainerSection& t = recipe_.trainer;
  loader_ = std::make_unique<Loader>(
      parts_.inputs.train,
      Loader::Options{t.batch_size, t.accumulate, recipe_.run.seed, recipe_.data.shuffle,
                      pad_id_of(*parts_.inputs.tokenizer, parts_.inputs.vocab_size)});
  restore();
  save_types_.emplace(recipe_.trainer.save.dtype, recipe_.trainer.precision, *state_.source_types);
  files_ = hub::model_files(model_, parts_.inputs.source, parts_.inputs.tokenizer.get(),
                            chosen_turn_end(recipe_, *parts_.inputs.tokenizer), save_types_->most());
}

Trainer::~Trainer() = default;

void Trainer::start() {
  const Preflight found = describe_inputs(recipe_, parts_.inputs, *save_types_);
  for (const std::string& line : found.lines) log::info("{}", line);
  for (const std::string& warning : found.warnings) log::warning("{}", warning);
  if (parts_.options.check_space)
    parts_.run.check_space(checkpoint_bytes(), checkpoints_to_come());
  if (parts_.from && parts_.options.resume.value_or("latest") != "latest") set_newer_aside(parts_.run, state_.step);
  parts_.run.write_config(config_yaml_);
  open_metrics();
  loader_->seek(state_.step);
  trackers_ =
      make_trackers(recipe_, {folder_, recipe_.run.name, config_yaml_, steps_, state_.step, parts_.options.quiet});
  hooks_.start(view());
  last_save_ = monotonic_seconds();
  if (state_.evaluation_due && !interrupted()) evaluate();  // a signal had cut it short
}

void Trainer::open_metrics() {
  metrics_file_.emplace(parts_.run.folder());
  const std::int64_t kept = metrics_file_->keep_up_to(parts_.from ? state_.step : -1);
  const auto expected = static_cast<std::int64_t>(state_.log_history.size());
  if (kept < expected)
    log::warning("{}/metrics.jsonl: {} of {} up to step {} there; {} has them all", folder_, kept,
                 counted(expected, "line"), state_.step,
                 (parts_.run.path() / "checkpoints" / saved_name_ / "trainer_state.json").string());
}

void Trainer::after_step(const StepReport& report) {
  evaluated_.reset();
  if (report.skipped) {
    state_.skipped_steps += 1;
    log::warning("step {}: no supervised token in any of its rows, no update", state_.step);
  }
  window_steps_ += 1;
  window_tokens_ += report.tokens;
  const bool evaluation = due(recipe_.trainer.eval_every) || state_.step == steps_;
  state_.evaluation_due = evaluation && !parts_.inputs.evals.empty();
  for (const auto& tracker : trackers_) tracker->step(state_.step, report.tokens, report.loss());
  follow(hooks_.step(
      view(), {{"loss", report.loss()}, {"grad_norm", report.grad_norm}, {"learning_rate", report.learning_rate}}));
}

void Trainer::follow(const Wishes& wishes) {
  state_.evaluation_due |= wishes.evaluate && !parts_.inputs.evals.empty() && !evaluated_;
  save_wanted_ |= wishes.save;
  if (stopped_by_.empty()) stopped_by_ = wishes.stop;
}

void Trainer::log() {
  const double seconds = std::max(step_seconds_, 1e-9);
  write_metrics(state_.window.values(),
                {{"tokens_per_second", static_cast<double>(window_tokens_) / seconds},
                 {"step_seconds", seconds / static_cast<double>(std::max<std::int64_t>(1, window_steps_))},
                 {"peak_memory_bytes", static_cast<double>(peak_memory_bytes())}});
  state_.window = {};
  window_steps_ = window_tokens_ = 0;
  step_seconds_ = 0;
}

void Trainer::evaluate() {
  const Stopwatch watch;
  const TrainerSection& t = recipe_.trainer;
  const EvaluateOptions options{t.eval_batch_size.value_or(t.batch_size),
                                pad_id_of(*parts_.inputs.tokenizer, parts_.inputs.vocab_size),
                                [this] { return interrupted(); }};
  const auto found = evaluate_sets(dynamic_cast<const CausalLm&>(model_), parts_.inputs.evals, options);
  if (!found) return;
  state_.evaluation_due = false;
  evaluated_ = found->at(main_metric(parts_.inputs.evals));
  write_metrics(*found, {{"eval_seconds", watch.seconds()}});
  std::string text;
  for (const auto& [name, value] : *found)
    if (name.ends_with("loss") || name.ends_with("accuracy")) text += fmt::format("  {} {:.4f}", name, value);
  log::info("step {}/{}:{}", state_.step, steps_, text);
  follow(hooks_.evaluated(view(), *found));
}

// One line of metrics.jsonl. `varying` is what differs between two equal runs: it does not go into the checkpoint.
void Trainer::write_metrics(const Metrics& values, const Metrics& varying) {
  Metrics line = values;
  line["step"] = static_cast<double>(state_.step);
  line["tokens"] = static_cast<double>(state_.tokens);
  line["epoch"] = epoch();
  state_.log_history.push_back(json_of(line));
  line.insert(varying.begin(), varying.end());
  metrics_file_->append(json_of(line));
  for (const auto& tracker : trackers_) tracker->log(state_.step, line);
  for (const auto& [name, value] : line) last_metrics_[name] = value;
}

Summary Trainer::finish() {
  const bool complete = !stopped_by_.empty() || (state_.step >= steps_ && !state_.evaluation_due);
  if (complete) state_.finished = stopped_by_.empty() ? "steps" : stopped_by_;
  for (const auto& tracker : trackers_) tracker->finish();
  const Stopwatch watch;
  const std::string kept = saved_step_ < 0 ? "no checkpoint" : fmt::format("step {}", saved_step_);
  if (saved_step_ != state_.step || complete) during("saving the last checkpoint; kept " + kept, [this] { save(); });
  if (!complete)
    log::info("{} at step {}: saved in {}; the same command again goes on", StopSignal::stop_name(), state_.step,
              human_duration(watch.seconds()));
  hooks_.end(view());
  return summary(complete);
}

Summary Trainer::summary(bool complete) const {
  Summary summary;
  summary.folder = folder_;
  summary.checkpoint = (parts_.run.path() / "checkpoints" / saved_name_).string();
  summary.step = state_.step;
  summary.steps = steps_;
  summary.tokens = state_.tokens;
  if (parts_.from) summary.resumed_from = parts_.from->step;
  summary.reason = !complete ? StopReason::signal : stopped_by_.empty() ? StopReason::steps : StopReason::callback;
  summary.stopped_by = complete ? stopped_by_ : StopSignal::stop_name();
  summary.seconds = clock_.seconds();
  summary.failed_saves = failed_saves_;
  summary.skipped_steps = state_.skipped_steps;
  summary.metrics = last_metrics_;
  return summary;
}

}  // namespace hone::training
