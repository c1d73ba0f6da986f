// Names of sets, looked at before the work.
#include "cli/named_files.h"

#include <fmt/format.h>

#include <map>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::cli {

void require_names_apart(const std::vector<std::pair<std::string, std::string>>& sets) {
  std::map<std::string, std::string> files;
  for (const auto& [name, path] : sets) {
    const auto [other, is_new] = files.emplace(name, path);
    if (!is_new)
      throw Error(ErrorKind::usage, fmt::format("--data: two sets are called {}: {} and {}; expected a name for each",
                                                hone::quoted(name), other->second, path))
          .hint("--data NAME=FILE gives one");
  }
}

}  // namespace hone::cli
