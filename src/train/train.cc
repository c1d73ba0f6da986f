// train(): from a recipe to a running Trainer.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <new>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "io/json.h"
#include "io/safetensors_writer.h"
#include "tensor/give_way.h"
#include "train/batch_size.h"
#include "train/checkpoint.h"
#include "train/complete.h"
#include "train/ranks.h"
#include "train/resume.h"
#include "train/trainer.h"

namespace hone {
namespace {

Summary already_finished(const io::RunFolder& run, const io::Checkpoint& checkpoint,
                         const training::TrainState& state) {
  Summary summary;
  summary.folder = run.path().string();
  summary.checkpoint = (run.path() / "checkpoints" / checkpoint.name).string();
  summary.step = summary.steps = state.step;
  summary.tokens = state.tokens;
  summary.resumed_from = checkpoint.step;
  summary.reason = StopReason::already_finished;
  if (state.finished != "steps") summary.stopped_by = state.finished;
  for (const auto& entry : state.log_history)
    for (const auto& [name, value] : entry.items()) summary.metrics[name] = training::number_from_json(value);
  return summary;
}

// A run that ended by its steps goes on when the recipe asks for more of them.
bool is_finished(const training::TrainState& state, const Recipe& recipe, const std::vector<config::Change>& changes) {
  if (state.finished.empty()) return false;
  if (state.finished != "steps") return changes.empty();
  if (recipe.trainer.steps) return *recipe.trainer.steps <= state.step;
  return std::none_of(changes.begin(), changes.end(), [](const config::Change& change) {
    return change.path == "trainer.epochs" || change.path == "trainer.tokens";
  });
}

// What rank 0 tokenises, the others find where it is kept.
training::Inputs load_together(const Recipe& recipe, const std::filesystem::path& checkpoint, const World& world) {
  const auto load = [&] { return training::load_inputs(recipe, checkpoint); };
  world.at("reading data");
  return training::cache_folder(recipe).empty() ? load() : world.first_then_others(load);
}

Summary train_in(io::RunFolder& run, Recipe recipe, const TrainOptions& options,
                 std::optional<training::Inputs> inputs) {
  std::optional<io::Checkpoint> chosen;
  if (options.world.is_first()) chosen = training::choose_checkpoint(run, options);
  const std::optional<io::Checkpoint> from = training::from_first(options.world, chosen);
  if (!from && run.existed()) log::info("{}: no checkpoint yet, the run starts at step 0", run.path().string());
  std::vector<config::Change> changes;
  if (from) {
    const Folder checkpoint = run.checkpoints().open(*from);
    const std::string saved = checkpoint.open_folder("state").read_file("config.yaml");
    training::take_batch_size(recipe, saved, run.path().string() + "/config.yaml");
    changes = training::check_recipe(saved, recipe, options, run.path().string());
    const training::TrainState state = training::load_state(checkpoint);
    if (!options.resume && is_finished(state, recipe, changes)) {
      if (!options.gradients.empty())
        throw Error(ErrorKind::usage,
                    fmt::format("--gradients {}: the run is finished at step {}, so no step gives any",
                                options.gradients, state.step));
      return already_finished(run, *from, state);
    }
    if (!training::has_optimizer(checkpoint))
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: saved without the optimizer's state (trainer.save.optimizer: false): no run can go "
                              "on from it",
                              checkpoint.path().string()))
          .hint(
              "model.path with this folder, in another run.folder, starts a new run from its weights; --new starts "
              "this one again");
  }
  if (!inputs || from)
    inputs = load_together(recipe, from ? run.checkpoints().folder().path() / from->name : "", options.world);
  if (const std::string why = training::choose_batch_size(recipe, *inputs, options.world);
      !why.empty())
    log::info("trainer.batch_size: {}", why);
  return training::Trainer({std::move(recipe), options, std::move(*inputs), run, from, std::move(changes)}).run();
}

Error out_of_memory(const std::string& text) {
  return Error(ErrorKind::data, "out of memory" + (text.empty() ? "" : ": " + text))
      .hint(
          "a smaller trainer.batch_size with a larger trainer.accumulate, trainer.checkpoint_blocks, or a shorter "
          "data.max_length");
}

// Rank 0 has the run folder; the others look into it.
Summary run_training(const Recipe& given, const TrainOptions& options) {
  const World& world = options.world;
  Env& env = options.env ? *options.env : Env::process();
  Recipe recipe = training::completed_for_run(given, env, options.resume.has_value());
  recipe.run.folder = world.from_first(recipe.run.folder);
  training::check_ranks(recipe, options);
  const std::filesystem::path folder = recipe.run.folder;
  training::check_overrides(recipe, options);
  if (options.fresh && options.resume) throw Error(ErrorKind::usage, "--new and --resume: not together");
  // A new run's folder is made, and an old one moved away, only when everything that the recipe names is in order.
  std::optional<training::Inputs> inputs;
  const io::RunFolder::Options how{options.fresh, ErrorKind::checkpoint, !world.is_first()};
  if (world.is_first()) io::require_run_folder(env, folder, how);
  if (!options.gradients.empty()) io::require_replaceable(options.gradients, ErrorKind::checkpoint);
  const bool there = !world.from_first(world.is_first() && io::has_run(env, folder) ? "there" : "").empty();
  if (options.resume && !there)
    throw Error(ErrorKind::checkpoint, fmt::format("{}: no run to resume", folder.string()));
  if (options.fresh || !there) inputs = load_together(recipe, "", world);
  world.wait();  // nobody reads any more in a folder that is moved away
  const std::unique_ptr<io::RunFolder> run =
      world.first_then_others([&] { return std::make_unique<io::RunFolder>(env, folder, how); });
  return train_in(*run, std::move(recipe), options, std::move(inputs));
}

// By a signal before the first step: the run is as it was.
Summary stopped_early(const Recipe& recipe, const Error& error) {
  log::info("{}; the same command starts again", error.what());
  Summary summary;
  summary.folder = recipe.run.folder;
  summary.reason = StopReason::signal;
  summary.stopped_by = StopSignal::stop_name();
  return summary;
}

}  // namespace

Summary train(Recipe recipe, const TrainOptions& options) {
  std::optional<StopSignal> signals;
  if (options.handle_signals) signals.emplace("stopping after this step, and saving; once more: at once");
  const std::int64_t warnings = log::warnings();
  const GiveWay give_way;
  try {
    Summary summary = run_training(recipe, options);
    summary.warnings = log::warnings() - warnings;
    return summary;
  } catch (const Error& error) {
    if (error.kind() != kStopped || options.world.size() > 1) throw;  // the other ranks have not heard of it
    return stopped_early(recipe, error);
  } catch (const std::bad_alloc&) {
    throw out_of_memory("");
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (text.find("allocate memory") != std::string::npos || text.find("out of memory") != std::string::npos)
      throw out_of_memory(text);
    throw Error(ErrorKind::bug, "LibTorch: " + text);
  }
}

}  // namespace hone
