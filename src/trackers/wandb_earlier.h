// What earlier processes of a run have written for W&B, up to the step at which the run goes on.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/env.h"
#include "trackers/wandb_records.h"

namespace hone::trackers {

// What the name of an offline run's folder begins with; then come its time and its id.
inline constexpr std::string_view kOfflineRun = "offline-run-";
std::string wandb_file_name(const std::string& id);

struct WandbEarlier {
  std::string id;               // of the run; empty: none of them has written anything
  std::int64_t last_start = 0;  // seconds since 1970
  std::int64_t next_line = 0;   // W&B's `_step`, behind all that has it
  double runtime_s = 0;         // of the run, at its last line that stays
  WandbValues last;             // the last value of each number, likewise
  std::set<std::string> tags;   // of the step at which the run goes on
  std::vector<std::string> warnings;  // of files that stay as they are: damaged, or not to be read or cut
};

// Looks through the offline runs of that project, entity and id (without an id: of the last one). Lines behind `step`
// are made again, so they are cut off their files, and so is a torn record; but what wandb has begun to upload stays.
WandbEarlier take_up_earlier(const Folder& folder, const WandbRun& run, std::int64_t step);

}  // namespace hone::trackers
