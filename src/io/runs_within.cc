// A folder of runs is easily given for one of them.
#include "io/runs_within.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/strings.h"

namespace hone::io {

namespace fs = std::filesystem;

Error naming_runs_within(Error error, const fs::path& folder) {
  std::error_code ignored;
  std::int64_t newest = 0;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("run_") || !fs::is_directory(entry.path() / "checkpoints", ignored)) continue;
    newest = std::max(newest, parse_int(name.substr(4)).value_or(0));
  }
  if (newest == 0) return error;
  const fs::path run = folder / fmt::format("run_{}", newest);
  return std::move(error).hint(fmt::format("its newest run: {}", run.string()));
}

}  // namespace hone::io
