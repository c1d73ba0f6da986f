// The messages of an offline run for W&B: those that hone writes, and what it reads of them again.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trackers/wandb_file.h"

namespace hone::trackers {

// Numbers of fields in wandb_internal.proto's Record.
enum WandbKind : std::uint64_t {
  kWandbHistory = 2,
  kWandbSummary = 3,
  kWandbMetric = 12,
  kWandbRun = 17,
  kWandbExit = 18,
  kWandbHeader = 21
};

inline constexpr const char* kGlobalStep = "train/global_step";  // the step of hone, as Hugging Face's Trainer calls it

// JSON by its name.
using WandbValues = std::map<std::string, std::string>;

struct WandbRun {
  std::string id, entity, project, group, name, notes, host;
  std::vector<std::string> tags;
  WandbValues config;
  std::int64_t start = 0;  // whole seconds since 1970
};

std::string json_number(double value);  // as Python has it: NaN, Infinity, -Infinity where it is not finite

WandbRecord wandb_header();  // the first one of a file
WandbRecord wandb_run(const WandbRun& run);
WandbRecord wandb_step_metric();    // kGlobalStep is a number of its own,
WandbRecord wandb_other_metrics();  // over which all others are shown
WandbRecord wandb_summary(const WandbValues& values);
WandbRecord wandb_history(const WandbValues& values, std::int64_t line);  // line: W&B's `_step`
WandbRecord wandb_exit(double runtime_s);                                 // of a run that ended without an error

bool is_hones_header(const WandbRecord& record);
WandbRun read_wandb_run(std::string_view content);        // id, entity, project, start
WandbValues read_wandb_values(std::string_view content);  // of a summary or a line of the history

}  // namespace hone::trackers
