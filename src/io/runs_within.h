// Folders that hold runs, as run.name makes them.
#pragma once

#include <filesystem>

#include "hone/error.h"

namespace hone::io {

// The error, and where the folder holds runs (runs/<name>/run_1, run_2, ...) a hint that names the newest of them.
Error naming_runs_within(Error error, const std::filesystem::path& folder);

}  // namespace hone::io
