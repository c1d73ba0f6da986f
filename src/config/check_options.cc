// What the options of a plug-in may be called.
#include <fmt/format.h>

#include <algorithm>

#include "hone/registry.h"

namespace hone::config {

void check_options(const std::string& plugin, const std::vector<OptionInfo>& options, bool chosen_by_type) {
  std::vector<std::string> paths;
  for (const OptionInfo& option : options) paths.push_back(option.path);
  if (chosen_by_type && std::find(paths.begin(), paths.end(), "type") != paths.end())
    throw Error(ErrorKind::usage,
                fmt::format("{}: option \"type\": got a field of that name, expected another: the key `type` names the "
                            "plug-in itself, so nothing could set it",
                            plugin));
  std::sort(paths.begin(), paths.end());
  const auto twice = std::adjacent_find(paths.begin(), paths.end());
  if (twice == paths.end()) return;
  throw Error(ErrorKind::usage,
              fmt::format("{}: option \"{}\": got two fields of that name, expected one", plugin, *twice));
}

}  // namespace hone::config
