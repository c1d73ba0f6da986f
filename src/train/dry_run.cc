// A dry run: the trainer, with a run folder that it only looks at or one for the time of the call.
#include "train/dry_run.h"

#include <fmt/format.h>

#include "base/signals.h"
#include "base/strings.h"
#include "base/temporary.h"
#include "data/files.h"
#include "io/pipe.h"
#include "train/batch_size.h"
#include "train/checkpoint.h"
#include "train/meta_run.h"
#include "train/complete.h"
#include "train/ranks.h"
#include "train/resume.h"
#include "train/trainer.h"

namespace hone::training {
namespace {

namespace fs = std::filesystem;

// What is taken from a pipe is not there when the run begins.
void refuse_pipes(const Recipe& recipe) {
  for (std::size_t i = 0; i < recipe.data.train.size(); ++i) {
    const std::string& path = recipe.data.train[i].path;
    if (data::is_standard_input(path) || io::is_pipe(path))
      throw Error(ErrorKind::usage, fmt::format("--dry-run: data.train.{}: {} can be read once, and the run would miss "
                                                "what the dry run takes",
                                                i, path == "-" ? "standard input" : path));
  }
}

// The run as it is, or a folder that lives as long as this.
class Place {
 public:
  Place(const Recipe& recipe, const TrainOptions& options) {
    Env& env = options.env ? *options.env : Env::process();
    const fs::path folder = recipe.run.folder;
    if (options.world.is_first()) io::require_run_folder(env, folder, {options.fresh});
    std::error_code ignored;
    const bool there = !options.fresh && io::has_run(env, folder) && fs::is_directory(folder / "checkpoints", ignored);
    if (options.resume && !there) throw Error(ErrorKind::checkpoint, folder.string() + ": no run to resume");
    if (!there) scratch_.emplace();
    io::RunFolderOptions how;
    how.watch = there;
    run_.emplace(Env::process(), there ? folder : fs::path(*scratch_ / "run"), how);
  }
  io::RunFolder& run() { return *run_; }

 private:
  std::optional<TemporaryFolder> scratch_;
  std::optional<io::RunFolder> run_;  // goes first
};

std::vector<config::Change> compare(io::RunFolder& run, const io::Checkpoint& from, Recipe& recipe,
                                    const TrainOptions& options) {
  const Folder checkpoint = run.checkpoints().open(from);
  const std::string saved = checkpoint.open_folder("state").read_file("config.yaml");
  if (!has_optimizer(checkpoint))
    throw Error(ErrorKind::checkpoint, checkpoint.path().string() +
                                           ": saved without the optimizer's state (trainer.save.optimizer: false): no "
                                           "run can go on from it");
  take_batch_size(recipe, saved, recipe.run.folder + "/config.yaml");
  return check_recipe(saved, recipe, options, recipe.run.folder);
}

// By a callback, or as its data had ended; what is asked for by name goes on all the same, as in train().
bool is_stopped(io::RunFolder& run, const io::Checkpoint& from, const std::vector<config::Change>& changes,
                const TrainOptions& options) {
  const auto state = load_state(run.checkpoints().open(from));
  return !options.resume && changes.empty() && !state.finished.empty() && state.finished != "steps";
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
  const World& world = options.world;
  Recipe recipe = completed_for_run(given, options.env ? *options.env : Env::process(), options.resume.has_value());
  recipe.run.folder = world.from_first(recipe.run.folder);
  check_ranks(recipe, options);
  check_overrides(recipe, options);
  if (options.fresh && options.resume) throw Error(ErrorKind::usage, "--new and --resume: not together");
  refuse_pipes(recipe);
  recipe.data.cache = "none";
  Place place(recipe, options);
  std::optional<io::Checkpoint> chosen;
  if (world.is_first()) chosen = choose_checkpoint(place.run(), options);
  const std::optional<io::Checkpoint> from = from_first(world, chosen);
  std::vector<config::Change> changes;
  if (from) changes = compare(place.run(), *from, recipe, options);
  const bool stopped = from && is_stopped(place.run(), *from, changes, options);
  recipe.callbacks.clear();
  const fs::path checkpoint = from ? place.run().checkpoints().folder().path() / from->name : fs::path();
  Inputs inputs = load_inputs(recipe, checkpoint);
  DryRun result;
  const SaveTypes types(recipe.trainer.save.dtype, recipe.trainer.precision, source_types(inputs.source));
  const std::string reason = choose_batch_size(recipe, inputs, world);
  const MemoryPlan memory = plan_memory(recipe, inputs, {.ranks = world.size()});
  result.found = describe_inputs(recipe, inputs, types, memory, ranks_here(world));
  if (!reason.empty()) result.found.lines.push_back("trainer.batch_size: " + reason);
  result.from = from ? from->name : "";
  result.step = from ? from->step : 0;
  result.steps = steps_of(recipe, *inputs.train);
  const bool evaluates = !inputs.evals.empty();
  Trainer trainer({recipe, options, std::move(inputs), place.run(), from, std::move(changes)});
  if (result.step < result.steps && !stopped) make_step(trainer, result);
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
