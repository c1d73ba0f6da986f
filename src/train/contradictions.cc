// What a recipe asks for and cannot get.
#include "train/contradictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "base/strings.h"
#include "data/labels.h"
#include "data/stream.h"
#include "hone/evaluation.h"
#include "hone/registry.h"
#include "train/check_schedule.h"
#include "train/evaluate.h"
#include "train/make_objective.h"
#include "train/make_optimizer.h"
#include "train/resources.h"
#include "train/rounding.h"
#include "train/step_plan.h"

namespace hone::training {
namespace {

constexpr const char* kNoData = "set, but there is nothing to evaluate on; give data.eval a share or files";

// What evaluations call the numbers of what they have gone through, which say nothing of how good a model is.
constexpr std::array<std::string_view, 6> kCounts = {"documents", "examples",  "pairs",
                                                     "prompts",   "questions", "tokens"};

bool is_count(const std::string& metric) {
  return std::find(kCounts.begin(), kCounts.end(), metric.substr(metric.rfind('_') + 1)) != kCounts.end();
}

// Whether a metric is measured, and of how good the model is.
bool check_metric(const Recipe& recipe, const std::string& option, const std::string& metric, Problems& problems) {
  const std::vector<std::string> sets = eval_sets(recipe);
  if (sets.empty()) {
    problems.add(option, fmt::format("watches {}, but there is nothing to evaluate on; give data.eval a share "
                                     "or files",
                                     metric));
    return false;
  }
  const std::unique_ptr<Objective> objective = make_objective(recipe);
  if (!unknown_evaluation(objective->evaluations()).empty()) return true;  // told already
  std::vector<std::string> known = metric_names(make_evaluations(*objective, recipe), sets);
  const bool is_known = std::find(known.begin(), known.end(), metric) != known.end();
  std::erase_if(known, is_count);
  if (is_known && is_count(metric))
    problems.add(option, fmt::format("watches {}, which counts what is measured on, and says nothing of how good the "
                                     "model is; expected one of {}",
                                     metric, join(known, ", ")));
  else if (!is_known)
    problems.add(option,
                 fmt::format("watches {}, which no evaluation gives; expected one of {}", metric, join(known, ", ")),
                 nearest(metric, known));
  return true;
}

// A callback that acts on a metric: it must be measured, and more often than at the end.
void check_watched(const Recipe& recipe, const std::string& callback, const std::string& metric, Problems& problems) {
  if (!check_metric(recipe, callback, metric, problems)) return;
  const MetricTimes times = times_of(recipe, metric);
  if (times.never())
    problems.add(callback, "acts on evaluations, but there is only the one at the end; set " + times.option);
}

// Of hone's own callbacks those whose numbers or file have no name that a second one could change, and those whose
// option `file` names one in the run folder.
constexpr std::array<std::string_view, 7> kOnce = {"histograms", "intermediates", "learning_rate", "memory",
                                                   "norms",      "throughput",    "timers"};
constexpr std::array<std::string_view, 2> kWithFile = {"samples", "trigger_file"};

template <std::size_t N>
bool is_in(const std::array<std::string_view, N>& types, const std::string& type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

std::string file_of(const config::Choice<Callback>& choice) {
  if (!is_in(kWithFile, choice.type)) return "";
  const config::Node options = choice.options->write();
  const config::Node* file = options.find("file");
  return file && file->kind() == config::Node::Kind::scalar ? file->text() : "";
}

// Two that write one file would take each other's lines for what a killed run left behind.
void check_repeated(const Recipe& recipe, std::size_t i, Problems& problems) {
  const config::Choice<Callback>& choice = recipe.callbacks[i];
  const std::string file = file_of(choice);
  for (std::size_t k = 0; k < i; ++k) {
    if (!file.empty() && file_of(recipe.callbacks[k]) == file)
      problems.add(fmt::format("callbacks.{}.file", i),
                   fmt::format("{} is the file of callbacks.{}; expected another name", hone::quoted(file), k));
    if (is_in(kOnce, choice.type) && recipe.callbacks[k].type == choice.type)
      problems.add(fmt::format("callbacks.{}", i),
                   fmt::format("{} is there already, as callbacks.{}: both would write the same names", choice.type,
                               k));
  }
}

void check_callbacks(const Recipe& recipe, Problems& problems) {
  for (std::size_t i = 0; i < recipe.callbacks.size(); ++i) {
    const config::Choice<Callback>& choice = recipe.callbacks[i];
    check_repeated(recipe, i, problems);
    const std::string metric = registries().callbacks.make(choice)->watches();
    if (!metric.empty()) check_watched(recipe, fmt::format("callbacks.{}", i), metric, problems);
  }
}

// The best checkpoints: there must be evaluations; check_schedule() says whether saves meet them.
void check_best(const Recipe& recipe, Problems& problems) {
  const TrainerSection& trainer = recipe.trainer;
  const SaveSection& save = trainer.save;
  if (!save.best_by.empty()) check_metric(recipe, "trainer.save.best_by", save.best_by, problems);
  problems.require(!save.after_evaluation || !eval_sets(recipe).empty(), "trainer.save.after_evaluation", kNoData);
}

// Two trackers that are the same would write one file.
void check_trackers(const Recipe& recipe, Problems& problems) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < recipe.trackers.size(); ++i) {
    const auto written = config::to_yaml(config::Values<config::Choice<Tracker>>::write(recipe.trackers[i]));
    if (!seen.insert(written).second) problems.add(fmt::format("trackers.{}", i), "given twice");
  }
}

void check_delay(const TrainerSection& trainer, Problems& problems) {
  const auto& own = trainer.eval_sets;
  const bool some =
      trainer.eval_every > 0 || trainer.eval_every_epochs > 0 ||
      std::any_of(own.begin(), own.end(), [](const auto& set) { return set.second.every.value_or(0) > 0; });
  problems.require(some || trainer.eval_delay == 0, "trainer.eval_delay",
                   "nothing is evaluated but at the end; trainer.eval_every says how often");
}

void check_evaluation(const Recipe& recipe, Problems& problems) {
  for (const auto& [name, files] : recipe.data.eval.files)
    for (std::size_t i = 0; i < files.size(); ++i)
      problems.require(files[i].weight == 1, fmt::format("data.eval.{}.{}.weight", name, i),
                       "weights are for training: each record is evaluated once");
  for (const auto& [name, files] : recipe.data.test.files) {
    problems.require(!files.empty(), "data.test." + name, "no file");
    for (std::size_t i = 0; i < files.size(); ++i)
      problems.require(files[i].weight == 1 && !files[i].stream, fmt::format("data.test.{}.{}", name, i),
                       "a test set has neither weights nor streams: each record is measured once");
  }
  const std::vector<std::string> sets = eval_sets(recipe);
  for (const auto& [name, times] : recipe.trainer.eval_sets)
    if (std::find(sets.begin(), sets.end(), name) == sets.end())
      problems.add("trainer.eval_sets." + name,
                   sets.empty() ? kNoData : fmt::format("no such evaluation set; expected one of {}", join(sets, ", ")),
                   nearest(name, sets));
  if (!sets.empty()) return check_delay(recipe.trainer, problems);
  problems.require(!recipe.trainer.max_eval_batches, "trainer.max_eval_batches", kNoData);
  problems.require(recipe.trainer.eval_every == 0, "trainer.eval_every", kNoData);
  problems.require(recipe.trainer.eval_every_epochs == 0, "trainer.eval_every_epochs", kNoData);
  problems.require(!recipe.trainer.eval_at_start, "trainer.eval_at_start", kNoData);
  problems.require(recipe.trainer.eval_delay == 0, "trainer.eval_delay", kNoData);
  problems.require(!recipe.trainer.eval_batch_size, "trainer.eval_batch_size", kNoData);
}

void check_objective(const Recipe& recipe, Problems& problems) {
  if (make_optimizer(recipe)->curvature_every() > 0 && !make_objective(recipe)->draws_labels())
    problems.add("optimizer " + recipe.optimizer.type,
                 fmt::format("its estimate of the curvature needs labels that the model can draw, which objective {} "
                             "has not as it is set; causal_lm with loss_type nll has some",
                             recipe.objective.type));
  if (const std::string text = unknown_evaluation(make_objective(recipe)->evaluations()); !text.empty())
    problems.add("objective " + recipe.objective.type, text);
}

// Of two of a kind the numbers would have the same names.
void check_metrics(const Recipe& recipe, Problems& problems) {
  const std::unique_ptr<Objective> objective = make_objective(recipe);
  if (!unknown_evaluation(objective->evaluations()).empty()) return;  // told already
  const Needs needs = objective->needs();
  std::set<std::string> seen;  // names of numbers
  for (const auto& own : make_evaluations(*objective))
    for (const std::string& name : own->names()) seen.insert(name);
  for (std::size_t i = 0; i < recipe.metrics.size(); ++i) {
    const std::string option = fmt::format("metrics.{}", i), &type = recipe.metrics[i].type;
    const std::unique_ptr<Evaluation> made = registries().evals.make(recipe.metrics[i]);
    problems.require(!eval_sets(recipe).empty() || !recipe.data.test.files.empty(), option, kNoData);
    if (!is_measured_on(*made, needs)) {
      problems.add(option,
                   fmt::format("{} is not measured on the records of objective {}", type, recipe.objective.type));
      continue;
    }
    const std::vector<std::string> names = made->names();
    problems.require(!seen.contains(names.at(0)), option,
                     type + " is measured already; its numbers would have the same names");
    seen.insert(names.begin(), names.end());
    problems.require(!made->writes_answers() || recipe.parallel.fsdp == 1, option,
                     type + ": not with parallel.fsdp, where no rank has a whole model that could write answers");
  }
}

void check_lengths(const Recipe& recipe, Problems& problems) {
  const Needs needs = make_objective(recipe)->needs();
  if (recipe.data.length_warmup.steps > 0)
    problems.require(needs.records == RecordKind::language && needs.answers == 0, "data.length_warmup",
                     fmt::format("not with objective {}: cut documents would lose their labels or pairs",
                                 recipe.objective.type));
}

void check_answers(const Recipe& recipe, Problems& problems) {
  const Needs needs = make_objective(recipe)->needs();
  std::string who = "not with objective " + recipe.objective.type;
  if (needs.records != RecordKind::asked) who += " and a model's own answers";
  if (needs.answers == 0) return;
  problems.require(!recipe.data.packing || *recipe.data.packing == Packing::none, "data.packing",
                   who + ": a row is one prompt, whose answers share it; expected none");
  problems.require(!recipe.trainer.tokens, "trainer.tokens",
                   who + ": nobody knows how long its answers will be; set trainer.steps");
  problems.require(recipe.data.overlong != Overlong::keep_start && recipe.data.overlong != Overlong::keep_end,
                   "data.overlong", who + ": a part of a prompt asks something else; expected drop or error");
  if (needs.records != RecordKind::asked) return;
  problems.require(!recipe.data.loss, "data.loss", who + ": what is learnt is the model's own answers");
  const std::string otherwise =
      who + ": answers would be likelier or less when they are learnt than when they were given";
  problems.require(recipe.trainer.fp8 == Float8::off, "trainer.fp8", otherwise);
  problems.require(recipe.trainer.neftune_noise_alpha == 0, "trainer.neftune_noise_alpha", otherwise);
  problems.require(recipe.data.append_eos, "data.append_eos", who + ": nothing is put behind a prompt");
}

void check_compared(const Recipe& recipe, Problems& problems) {
  const Needs needs = make_objective(recipe)->needs();
  if (!needs.compares_records) return;
  const Packing usual = data::are_texts(needs.records) ? Packing::none : Packing::best_fit;
  problems.require(
      recipe.trainer.rows_per_step() > 1 || recipe.data.packing.value_or(usual) != Packing::none,
      "trainer.batch_size",
      fmt::format("objective {} compares records of a step with each other; got 1 row in a step, expected "
                  "at least 2",
                  recipe.objective.type));
}

// Updates that a step's micro-batches are dealt out to have each as many.
void check_updates(const Recipe& recipe, Problems& problems) {
  const std::int64_t updates = make_objective(recipe)->needs().updates, batches = recipe.trainer.accumulate;
  problems.require(recipe.trainer.batch_size.automatic || batches % updates == 0, "trainer.accumulate",
                   fmt::format("got {}, expected a multiple of {}: into so many updates objective {} deals a step's "
                               "micro-batches out",
                               batches, updates, recipe.objective.type));
}

// Below an adapter nothing moves, and an adapter has nothing that a whole model could move towards.
void check_following(const Recipe& recipe, Problems& problems) {
  for (const auto& [role, how] : make_objective(recipe)->needs().following)
    problems.require(recipe.adapter.type.empty(), "objective." + how.option,
                     fmt::format("not with an adapter: the {} follows whole weights, which then stay", role));
}

void check_stream_window(const Recipe& recipe, Problems& problems) {
  if (recipe.data.stream_window != DataSection().stream_window)
    problems.require(data::is_stream(recipe.data.train), "data.stream_window",
                     "set, but nothing in data.train is a stream; see data.train.stream");
}

}  // namespace

void find_contradictions(const Recipe& recipe, Problems& problems) {
  check_stream_window(recipe, problems);
  check_step_plan(recipe, problems);
  check_lengths(recipe, problems);
  check_answers(recipe, problems);
  check_rounding(recipe, problems);
  check_compared(recipe, problems);
  check_updates(recipe, problems);
  check_following(recipe, problems);
  check_objective(recipe, problems);
  check_metrics(recipe, problems);
  check_evaluation(recipe, problems);
  check_callbacks(recipe, problems);
  check_best(recipe, problems);
  check_trackers(recipe, problems);
  if (recipe.trainer.steps) check_schedule(recipe, *recipe.trainer.steps, problems);
}

}  // namespace hone::training
