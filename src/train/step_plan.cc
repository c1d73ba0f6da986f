// Batches and documents of the first steps.
#include "train/step_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hone::training {
namespace {

std::int64_t accumulate_of(const TrainerSection& trainer, std::size_t stage) {
  return stage < trainer.batch_warmup.size() ? trainer.batch_warmup[stage].accumulate.value_or(trainer.accumulate)
                                             : trainer.accumulate;
}

// How often a stage's batch grows until it is the next one's; nothing: it never comes to that.
std::optional<std::int64_t> growths_of(const TrainerSection& trainer, std::size_t stage) {
  const std::int64_t increment = trainer.batch_warmup[stage].increment;
  const std::int64_t way = accumulate_of(trainer, stage + 1) - accumulate_of(trainer, stage);
  if (increment == 0) return 0;
  if (way <= 0 || way % increment != 0) return std::nullopt;
  return way / increment;
}

void check_length_warmup(const Recipe& recipe, Problems& problems) {
  const LengthWarmup& warmup = recipe.data.length_warmup;
  const LengthWarmup standard;
  problems.require(warmup.steps > 0 || (warmup.from == standard.from && warmup.multiple == standard.multiple &&
                                        warmup.power == standard.power),
                   "data.length_warmup.steps", "missing: after how many steps documents are as long as they come");
  if (warmup.steps == 0) return;
  problems.require(warmup.from < recipe.data.max_length, "data.length_warmup.from",
                   fmt::format("got {}, expected less than data.max_length {}", warmup.from, recipe.data.max_length));
}

}  // namespace

std::vector<Loader::Stage> batch_stages(const TrainerSection& trainer) {
  std::vector<Loader::Stage> stages;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < trainer.batch_warmup.size(); ++i) {
    const BatchStage& stage = trainer.batch_warmup[i];
    const std::int64_t rows = stage.batch_size.value_or(trainer.batch_size), first = accumulate_of(trainer, i);
    const std::int64_t parts = std::max<std::int64_t>(1, growths_of(trainer, i).value_or(1));
    for (std::int64_t part = 0; part < parts; ++part)  // the k-th begins where k / parts of the steps are made
      if (const std::int64_t end = begin + (stage.steps * (part + 1) + parts - 1) / parts;
          end > (stages.empty() ? 0 : stages.back().until))
        stages.push_back({end, rows, first + part * stage.increment});
    begin += stage.steps;
  }
  return stages;
}

data::StepSizes step_sizes(const TrainerSection& trainer) {
  if (trainer.batch_size.automatic) return {1, trainer.rows_per_step(), {}};
  return {trainer.batch_size, trainer.accumulate, batch_stages(trainer)};
}

std::function<std::int64_t(std::int64_t step)> longest_documents(const DataSection& data) {
  if (data.length_warmup.steps == 0) return {};
  return [warmup = data.length_warmup, most = data.max_length](std::int64_t step) {
    if (step >= warmup.steps) return most;
    const double way = std::pow(static_cast<double>(step) / static_cast<double>(warmup.steps), warmup.power);
    const auto length =
        static_cast<std::int64_t>(static_cast<double>(warmup.from) + way * static_cast<double>(most - warmup.from));
    return std::clamp(length / warmup.multiple * warmup.multiple, warmup.from, most);
  };
}

std::vector<std::string> step_plan_lines(const Recipe& recipe) {
  constexpr std::size_t kShown = 6;
  std::vector<std::string> lines;
  std::vector<Loader::Stage> stages = batch_stages(recipe.trainer);
  if (!stages.empty()) {
    std::string text = "trainer.batch_warmup:";
    std::int64_t begin = 0;
    stages.push_back({0, recipe.trainer.batch_size, recipe.trainer.accumulate});
    for (std::size_t i = 0; i < stages.size(); begin = stages[i++].until) {
      if (i >= kShown && i + 1 < stages.size()) continue;
      text += fmt::format("{} {} ({} x {}){}",
                          i == 0       ? ""
                          : i > kShown ? " ..."
                                       : ",",
                          stages[i].batch_size * stages[i].accumulate, stages[i].batch_size, stages[i].accumulate,
                          i == 0 ? " rows a step" : fmt::format(" after {} steps", begin));
    }
    lines.push_back(text);
  }
  if (const LengthWarmup& warmup = recipe.data.length_warmup; warmup.steps > 0)
    lines.push_back(fmt::format("data.length_warmup: documents of at most {} tokens at first, of {} after {} steps",
                                warmup.from, recipe.data.max_length, warmup.steps));
  return lines;
}

void check_step_plan(const Recipe& recipe, Problems& problems) {
  check_length_warmup(recipe, problems);
  const TrainerSection& trainer = recipe.trainer;
  for (std::size_t i = 0; i < trainer.batch_warmup.size(); ++i) {
    const std::string option = fmt::format("trainer.batch_warmup.{}.", i);
    const BatchStage& stage = trainer.batch_warmup[i];
    problems.require(stage.accumulate || stage.batch_size, option + "accumulate",
                     "missing: what is other than in the rest of the run");
    problems.require(stage.steps > 0, option + "steps", "missing: how many steps it is so");
    const std::int64_t from = accumulate_of(trainer, i), to = accumulate_of(trainer, i + 1);
    const std::optional<std::int64_t> growths = growths_of(trainer, i);
    if (!growths)
      problems.add(option + "increment",
                   fmt::format("got {}, by which {} micro-batches never come to {}", stage.increment, from, to));
    else
      problems.require(
          *growths <= stage.steps, option + "increment",
          fmt::format("got {}: it would have to grow {} times in {} steps", stage.increment, *growths, stage.steps));
  }
}

void check_step_plan_fits(const Recipe& recipe, std::int64_t steps, Problems& problems) {
  const std::int64_t lengths = recipe.data.length_warmup.steps;
  problems.require(
      lengths == 0 || lengths < steps, "data.length_warmup.steps",
      fmt::format("got {} of {} steps: no step would have documents of their whole length", lengths, steps));
  std::int64_t stages = 0;
  for (const BatchStage& stage : recipe.trainer.batch_warmup) stages += stage.steps;
  problems.require(stages == 0 || stages < steps, "trainer.batch_warmup",
                   fmt::format("its stages have {} steps, and the run {}: no step would have the batch that the recipe "
                               "is for",
                               stages, steps));
}

}  // namespace hone::training
