// Training as one call: a recipe in, a folder of checkpoints and a summary out. `hone train` is a thin wrapper around
// it. Trainer is the same in parts, with models and data in memory.
//
//   hone::Recipe recipe = hone::read_recipe("recipe.yaml");
//   recipe.trainer.steps = 200;
//   const hone::Summary summary = hone::train(recipe);
//   fmt::print("loss {} in {}\n", summary.metrics.at("loss"), summary.checkpoint);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/recipe.h"
#include "hone/run_parts.h"
#include "hone/world.h"

namespace hone {

class Env;  // src/base/env.h: the file system; tests break it

// How to run a recipe this time; nothing of it is part of the run's identity.
struct TrainOptions {
  std::optional<std::string> resume;       // "latest" or a step: Error when it is not there, never a start from scratch
  bool fresh = false;                      // --new: an existing run folder is moved to <folder>.old-k first
  std::vector<std::string> override_keys;  // options that may differ from the run's own recipe; "all" = any
  bool strict_resume = false;              // a damaged newest checkpoint is an Error instead of a step back
  // Instead of a run: from the newest checkpoint before this step, or from the run's start where there is none, the
  // step is made once more, and nothing is written. Error(not_finite), as the run gave it, where that comes again.
  std::optional<std::int64_t> replay;
  std::string gradients;                   // safetensors file for the gradients of the last step, before clipping
  bool quiet = false;                      // no progress line
  bool check_space = true;                 // refuse to start when the checkpoints will not fit on the disk
  bool handle_signals = true;              // SIGINT, SIGTERM, SIGHUP stop after the step, SIGUSR1 saves
  Env* env = nullptr;                      // nullptr: the real one
  World world = {};  // the ranks that train together: each calls train() with the same recipe; rank 0 logs and saves
};

enum class StopReason { steps, callback, signal, already_finished, end_of_data, replayed };

struct HONE_API Summary : Described<Summary> {
  std::string folder, checkpoint;  // the run folder; its last checkpoint ("" if there is none)
  std::int64_t step = 0, steps = 0, tokens = 0;
  std::optional<std::int64_t> resumed_from;  // step of the checkpoint this process started from
  StopReason reason = StopReason::steps;
  std::string stopped_by;  // "SIGTERM", the callback's name, or "end of data"
  double seconds = 0;                                                // from the state's making to the end
  double prepare_seconds = 0;  // before the first step: data, model, state and functions
  std::int64_t warnings = 0, failed_saves = 0, skipped_steps = 0;
  std::int64_t left_out = 0;  // updates of the run, for gradients that were not finite or far too long
  Metrics metrics;                                                   // of the last logged step and the last evaluation
  bool interrupted() const { return reason == StopReason::signal; }  // resumable: exit code 75
  config::Node to_dict() const;  // as `hone train --json` prints it
  static Summary from_dict(const config::Node& dict);
};

// Trains, evaluates, saves and resumes as docs/formats.md says. One run at a time per process; the calling thread
// trains. Throws Error: config (the recipe), data, checkpoint (reading, or the final save), not_finite, locked.
HONE_API Summary train(Recipe recipe, const TrainOptions& options = {});

// All that a run gives.
struct TrainOutput {
  Summary summary;
  std::optional<TrainState> state;  // as it is at the end, in memory; nothing: the run had been finished before
  World world;
  std::string checkpoint_path;      // folder of the last checkpoint; "": there is none
  std::string last_save_file_name;  // its name, "step-00001000"
};

// The same in parts (hone/run_parts.h). They are made in this order, each by the call that asks for it or a later one:
//   data        tokenizer, data sets, the number of steps; the run folder is opened and locked
//   model       weights, optimizer and schedule
//   functions   the state, as the run's checkpoint has it if there is one; the step, what is measured
// A part may be replaced until a later one is made; the run uses what it says, and its config.yaml has it. What is
// given in memory is given again at a resume. One thread.
class HONE_API Trainer {
 public:
  // Error(usage): a model and a state; in memory what the recipe names as well. Neither in memory nor in the recipe:
  // Error(config), as all that the recipe lacks.
  explicit Trainer(Recipe recipe, TrainerInputs inputs = {}, TrainOptions options = {});
  Trainer(Recipe recipe, TrainOptions options);
  ~Trainer();

  // Error(usage): the run had been finished before, and nothing is made of it. Other errors as train().
  const RunData& configure_dataloaders();
  const RunModel& configure_model();
  const RunFunctions& configure_functions();
  void replace(RunData part);
  void replace(RunModel part);
  void replace(RunFunctions part);

  TrainOutput run();  // once
  // Of all evaluation sets, or those of the recipe's options: what is logged as eval_…; `each` is told of every batch.
  // Of the run's state as it is, before run(); of another one, such as what run() gave, at any time.
  Metrics evaluate(const OnEvaluationStep& each = {});
  Metrics evaluate(TrainState& state, const OnEvaluationStep& each = {});

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// What would be trained on, without training: the lines that train() prints before step 0.
HONE_API std::vector<std::string> preflight(Recipe recipe);

// Fields of metrics.jsonl that are not the same in two equal runs: times, rates and memory.
HONE_API const std::vector<std::string>& nondeterministic_metrics();

}  // namespace hone
