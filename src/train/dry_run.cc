// A dry run: the trainer, with a run folder that it only looks at or one for the time of the call.
#include "train/dry_run.h"

#include <fmt/format.h>

#include "base/signals.h"
#include "base/strings.h"
#include "data/files.h"
#include "train/meta_run.h"
#include "train/preparation.h"
#include "train/ranks.h"

namespace hone::training {
namespace {

// What is taken from a pipe is not there when the run begins.
void refuse_pipes(const Recipe& recipe) {
  for (std::size_t i = 0; i < recipe.data.train.size(); ++i) {
    const std::string& path = recipe.data.train[i].path;
    if (data::is_read_once(path))
      throw Error(ErrorKind::usage, fmt::format("--dry-run: data.train.{}: {} can be read once, and the run would miss "
                                                "what the dry run takes",
                                                i, path == "-" ? "standard input" : path));
  }
}

// Of the model that the run began with: a checkpoint, whose own types may be others, has it in its state.
SourceTypes types_of_beginning(const Preparation& preparation) {
  const std::filesystem::path& source = preparation.inputs().source;
  const bool is_checkpoint = preparation.from() && preparation.recipe().adapter.type.empty();
  if (!is_checkpoint) return source_types(source);
  const RunState state = load_state(Env::process().open_folder(source));
  return state.source_types ? *state.source_types : source_types(source);
}

// given: with the callbacks, which a trial does without.
DryRun describe(const Preparation& preparation, const Recipe& given, const World& world) {
  Recipe recipe = preparation.recipe();
  recipe.callbacks = given.callbacks;
  const Inputs& inputs = preparation.inputs();
  const SaveTypes types(recipe.trainer.save.dtype, recipe.trainer.precision, types_of_beginning(preparation));
  const MemoryPlan memory = plan_memory(recipe, inputs, {.ranks = world.size()});
  DryRun result;
  result.found = describe_inputs(recipe, inputs, types, memory, ranks_here(world));
  if (const std::string& reason = preparation.batch_reason(); !reason.empty())
    result.found.lines.push_back("trainer.batch_size: " + reason);
  if (preparation.from()) result.from = preparation.from()->name, result.step = preparation.from()->step;
  result.steps = steps_of(recipe, inputs);
  return result;
}

void make_step(Trainer& trainer, DryRun& result) {
  trainer.begin();
  const Stopwatch watch;
  const StepReport report = trainer.train_step();
  result.step_seconds = watch.seconds();
  Window window;
  window.add(report);
  result.metrics = window.values();
  result.step += 1, result.made = true;
}

}  // namespace

DryRun dry_run(const Recipe& given, TrainOptions options) {
  const StopSignal signals;
  refuse_pipes(given);
  Recipe recipe = given;
  recipe.data.cache = "none";
  Preparation preparation(std::move(recipe), {}, std::move(options), Purpose::trial);
  preparation.load_data(/*strict=*/true);
  const World& world = preparation.options().world;
  DryRun result = describe(preparation, given, world);
  const bool evaluates = !preparation.inputs().evals.empty(), ended = preparation.finished().has_value();
  preparation.make_loop();
  Trainer& trainer = preparation.loop();
  if (result.step < result.steps && !ended) make_step(trainer, result);
  StopSignal::check("trying the run");
  const Stopwatch watch;
  if (evaluates) result.evaluation = trainer.measure(nullptr, {});
  result.evaluation_seconds = watch.seconds();
  result.peak_memory_bytes = static_cast<double>(peak_memory_bytes());
  world.wait();  // rank 0's folder is looked at no more
  return result;
}

std::vector<std::string> DryRun::lines() const {
  std::vector<std::string> all = found.all_lines();
  const auto numbers = [](const Metrics& values) {
    std::string text;
    for (const auto& [name, value] : values) text += fmt::format("{}{} {:.6g}", text.empty() ? "" : ", ", name, value);
    return text;
  };
  const std::string whence = from.empty() ? "" : " from " + from;
  all.push_back(
      made ? fmt::format("step {} of {}{}: {}; {}", step, steps, whence, numbers(metrics), human_duration(step_seconds))
           : fmt::format("at step {} of {}{}: nothing to train", step, steps, whence));
  if (!evaluation.empty())
    all.push_back(fmt::format("evaluation: {}; {}", numbers(evaluation), human_duration(evaluation_seconds)));
  all.push_back(fmt::format("a dry run: nothing was kept; {} of memory at most",
                            human_size(static_cast<std::uint64_t>(peak_memory_bytes))));
  return all;
}

nlohmann::ordered_json DryRun::report() const {
  nlohmann::ordered_json json = found.report;
  nlohmann::ordered_json dry = {
      {"from", from.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(from)}, {"step", step}, {"made", made}};
  dry["metrics"] = json_of(metrics);
  dry["step_seconds"] = step_seconds;
  dry["evaluation"] = json_of(evaluation);
  dry["evaluation_seconds"] = evaluation_seconds;
  dry["peak_memory_bytes"] = static_cast<std::int64_t>(peak_memory_bytes);
  json["dry_run"] = dry;
  return json;
}

}  // namespace hone::training
