// What a run would do first: one step and one evaluation, of which nothing stays.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "hone/trainer.h"
#include "train/preflight.h"

namespace hone::training {

struct DryRun {
  Preflight found;
  std::string from;                  // the checkpoint that the run would go on from; "": none
  std::int64_t step = 0, steps = 0;  // step: that was made
  bool made = false;                 // false: the run is at its end already, and no step was made
  Metrics metrics, evaluation;  // as the line of metrics.jsonl of that step would say, and of an evaluation after it
  double step_seconds = 0, evaluation_seconds = 0, peak_memory_bytes = 0;

  std::vector<std::string> lines() const;
  nlohmann::ordered_json report() const;  // found.report with these
};

// On each rank; as train() would, from the run's checkpoint where it has one, also while the run is under way. Neither
// the run folder nor a cache is touched, callbacks and trackers are left out. Throws Error as train() does, and
// Error(usage): data that can be read once.
DryRun dry_run(const Recipe& given, TrainOptions options);

}  // namespace hone::training
