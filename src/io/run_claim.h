// What a folder is to a run that is to live in it: a run's already, free, or somebody else's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/env.h"

namespace hone::io {

inline constexpr const char* kRunLock = ".lock";
inline constexpr const char* kRunConfig = "config.yaml";
inline constexpr const char* kRunNotes = "run.json";
inline constexpr const char* kRunMetrics = "metrics.jsonl";

// What run.json says of the runs so far.
struct RunNotes {
  bool had_checkpoints = false;
  std::string config_hash;
};
std::optional<RunNotes> read_run_notes(const Folder& folder);  // nothing: absent, or not hone's

struct RunClaim {
  bool run = false;                     // a run of hone's has left something here
  std::vector<std::string> in_the_way;  // what a run would overwrite, and no run of hone's wrote
  std::vector<std::string> others;      // what is there besides that, when there is no run
};
RunClaim look_for_run(const Folder& folder);

}  // namespace hone::io
