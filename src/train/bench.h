// Measures training steps as they are: the recipe's model, data and optimizer, and nothing written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/sections.h"
#include "hone/data.h"
#include "hone/recipe.h"
#include "hone/world.h"

namespace hone::training {

struct BenchOptions {
  std::int64_t warmup = 2, steps = 5;
  World world = {};
  std::shared_ptr<const TrainingData> train = {};  // the recipe's, where who asks has read it
};

struct BenchReport {
  std::int64_t parameters = 0, tokens_per_step = 0, supervised_per_step = 0;
  double load_seconds = 0, first_step_seconds = 0;  // from the call to the first step's end
  double step_seconds = 0, best_step_seconds = 0;   // median and best of the measured steps
  sections::Totals totals;                          // of all measured steps
  std::int64_t steps = 0;
  double host_waits_per_micro_batch = 0;  // for what a device was to make; those between micro-batches are not counted
  double peak_memory_bytes = 0;
  Precision precision = Precision::fp32;
  std::string device = "cpu";  // or "cuda:0": then peak_memory_bytes are its own
  int ranks = 1;
  double bytes_sent_per_step = 0;                   // of weights and gradients to other ranks, by this one
  double exposed_seconds_per_step = 0;              // in which it waited for other ranks: the host, and the device
  std::optional<double> exchange_seconds_per_step;  // in which anything was on its way; of a device nobody knows
};

// Works in a temporary folder that is gone afterwards. Throws as train() does.
BenchReport bench(Recipe recipe, const BenchOptions& options);

}  // namespace hone::training
