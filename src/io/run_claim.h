// What a folder is to a run that is to live in it: a run's already, free, or somebody else's.
#pragma once

#include <filesystem>
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

// How a run takes its folder.
struct RunFolderOptions {
  bool fresh = false;                      // --new: an existing folder is moved to <folder>.old-k first
  ErrorKind kind = ErrorKind::checkpoint;  // of its errors
  bool watch = false;                      // another process has it: what is there is read, and nothing is written
};
// Throws Error(options.kind) when no run may start at `path`: it is no folder, or has files of the names that a run
// writes which no run of hone's wrote; with options.fresh: it has files, but no run. Nothing is made or changed.
void require_run_folder(Env& env, const std::filesystem::path& path, RunFolderOptions options);
bool has_run(Env& env, const std::filesystem::path& path);  // a run of hone's has left something there

}  // namespace hone::io
