// Checkpoints that a command names.
#pragma once

#include <filesystem>
#include <string>

#include "base/env.h"

namespace hone::cli {

struct CheckpointPlace {
  std::filesystem::path folder, run;  // run "": it lies in none
  std::int64_t step = 0;
};

// A checkpoint, a link to one, or a run folder: its newest whole one. Every byte of it was looked at where `verified`.
// Error(checkpoint, usage).
CheckpointPlace checkpoint_place(const std::string& where, bool verified);

// A run folder at `run` that has this checkpoint alone, as a copy, to go on from it; every byte is looked at first.
// Killed anywhere before the checkpoint is there it can be made again. Error(usage): there is something.
// Error(checkpoint): it is damaged, or cannot be copied. Error(locked): another process begins a run there.
void copy_into_run(const CheckpointPlace& checkpoint, const std::filesystem::path& run, Env& env = Env::process());

}  // namespace hone::cli
