// A file is the same by its number on its device, not by its name.
#include "train/same_data.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <map>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "data/files.h"
#include "hone/error.h"

namespace hone::training {
namespace {

using Identity = std::pair<dev_t, ino_t>;

// With the names by which an entry finds them.
std::map<Identity, std::string> regular_files(const std::vector<DataFile>& entries) {
  std::map<Identity, std::string> found;
  for (const DataFile& entry : entries) {
    if (entry.path.empty()) continue;  // made by its source
    try {
      for (const DataFile& file : data::files_of(entry, /*as_stream=*/true).files)
        if (struct stat facts; stat(file.path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode))
          found.emplace(Identity{facts.st_dev, facts.st_ino}, file.path);
    } catch (const Error&) {
      continue;
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> sets_trained_on(const DataSection& data) {
  std::vector<std::string> warnings;
  if (data.eval.files.empty() && data.test.files.empty()) return warnings;
  const std::map<Identity, std::string> trained = regular_files(data.train);
  const auto look = [&](const std::string& section, const auto& sets) {
    for (const auto& [name, files] : sets)
      for (const auto& [identity, path] : regular_files(files))
        if (trained.contains(identity)) {
          warnings.push_back(fmt::format("{}.{}: {} is trained on, too: what is measured on it says nothing of other "
                                         "data",
                                         section, name, path));
          break;
        }
  };
  look("data.eval", data.eval.files);
  look("data.test", data.test.files);
  return warnings;
}

}  // namespace hone::training
