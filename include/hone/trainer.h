// Training as one call: a recipe in, a folder of checkpoints and a summary out. `hone train` is a thin wrapper around
// it.
//
//   hone::Recipe recipe = hone::read_recipe("recipe.yaml");
//   recipe.trainer.steps = 200;
//   const hone::Summary summary = hone::train(recipe);
//   fmt::print("loss {} in {}\n", summary.metrics.at("loss"), summary.checkpoint);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/recipe.h"
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

struct Summary {
  std::string folder, checkpoint;  // the run folder; its last checkpoint ("" if there is none)
  std::int64_t step = 0, steps = 0, tokens = 0;
  std::optional<std::int64_t> resumed_from;  // step of the checkpoint this process started from
  StopReason reason = StopReason::steps;
  std::string stopped_by;  // "SIGTERM", the callback's name, or "end of data"
  double seconds = 0;
  std::int64_t warnings = 0, failed_saves = 0, skipped_steps = 0;
  std::int64_t left_out = 0;  // updates of the run, for gradients that were not finite or far too long
  Metrics metrics;                                                   // of the last logged step and the last evaluation
  bool interrupted() const { return reason == StopReason::signal; }  // resumable: exit code 75
};

// Trains, evaluates, saves and resumes as docs/formats.md says. One run at a time per process; the calling thread
// trains. Throws Error: config (the recipe), data, checkpoint (reading, or the final save), not_finite, locked.
HONE_API Summary train(Recipe recipe, const TrainOptions& options = {});

// What would be trained on, without training: the lines that train() prints before step 0.
HONE_API std::vector<std::string> preflight(Recipe recipe);

// Fields of metrics.jsonl that are not the same in two equal runs: times, rates and memory.
HONE_API const std::vector<std::string>& nondeterministic_metrics();

}  // namespace hone
