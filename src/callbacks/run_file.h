// Names of files in the run folder that recipes may choose.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "base/strings.h"
#include "hone/config.h"
#include "io/file_name.h"

namespace hone::callbacks {

// The option `path` names a file of the run folder that nothing else writes. but_for: the one that is its own.
inline void check_run_file(const std::string& name, const std::string& path, Problems& problems,
                           const std::string& but_for = "") {
  static constexpr std::array kOwn{"config.yaml", "run.json", "metrics.jsonl", "metrics.csv", "histograms.jsonl",
                                   "samples.jsonl", "completions.jsonl", "checkpoints", "cache", "profile"};
  const bool taken = name != but_for && std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end();
  problems.require(io::is_plain_name(name) && !taken, path,
                   "got " + hone::quoted(name) + ", expected a name without a path, of none of the run's own files");
}

}  // namespace hone::callbacks
