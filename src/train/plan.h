// What a run will be, before it: memory, work, steps, time, disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hone/recipe.h"
#include "train/meta_run.h"

namespace hone::training {

struct RunPlanOptions {
  int ranks = 1;
  bool measure = true;      // time a few micro-batches, where they fit into memory
  std::int64_t steps = 3;   // that many of them
};

// How long parts of the run take; 0: there are none.
struct TimePlan {
  bool measured = false;  // else from the work alone
  double micro_batch = 0, update = 0, step = 0;                        // seconds of one, on average
  double start = 0, steps = 0, evaluations = 0, saves = 0, total = 0;  // of all
};

struct RunPlan {
  Recipe recipe;  // resolved
  std::int64_t parameters = 0, trained = 0;
  MemoryPlan memory;
  std::uint64_t available = 0;  // memory of this machine now, or of a device
  std::int64_t steps = 0, rows_per_step = 0, rows = 0;  // rows_per_step: after trainer.batch_warmup; rows: of all
  std::optional<std::int64_t> data_rows;  // of an epoch; nothing: a stream
  std::optional<double> epochs;
  double tokens_per_step = 0, tokens = 0;  // on average
  double flops_per_token = 0, flops_per_step = 0, flops = 0;
  TimePlan time;
  std::int64_t evaluations = 0, saves = 0, checkpoints = 0;  // checkpoints: at once, at most
  std::uint64_t disk = 0, disk_free = 0;
  int ranks = 1, sharing_memory = 1;  // those that share what is available
  bool shared_out = false;
  std::string batch_size_reason;  // of trainer.batch_size: auto
  std::string stream_records;     // of a stream of texts: how many a record was taken to have, and why

  bool fits() const { return memory.peak * static_cast<std::uint64_t>(sharing_memory) <= available; }
};

// Writes nothing. Throws as train() does before its first step.
RunPlan plan_run(const Recipe& recipe, const RunPlanOptions& options = {});

}  // namespace hone::training
