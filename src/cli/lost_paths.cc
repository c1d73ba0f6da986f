// Paths are found by their values: any option may be one, also of a part that a plug-in has.
#include "cli/lost_paths.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "hone/config.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

struct Lost {
  std::string option, path;
};

void add_lost(const config::Node& node, const std::string& option, std::vector<Lost>& lost) {
  std::error_code ignored;
  if (node.kind() == config::Node::Kind::scalar && !node.text().empty() && fs::path(node.text()).is_relative() &&
      !fs::exists(node.text(), ignored))
    lost.push_back({option, node.text()});
  std::size_t number = 0;
  for (const config::Node& item : node.items()) add_lost(item, fmt::format("{}.{}", option, number++), lost);
  for (const auto& [key, entry] : node.entries()) add_lost(entry, option.empty() ? key : option + "." + key, lost);
}

}  // namespace

Error naming_lost_path(Error error, const Recipe& recipe, const std::string& run) {
  const std::string told = error.what();
  const std::string subject = told.substr(0, told.find('\n'));
  std::vector<Lost> lost;
  add_lost(write_recipe(recipe), "", lost);
  for (const auto& [option, path] : lost) {
    const bool is_named = subject.starts_with(path + ":") || subject.find(" " + path + ":") != std::string::npos ||
                          subject.starts_with(path + "/");
    if (!is_named) continue;
    std::error_code ignored;
    error.add_context(fmt::format("looking for {}, {} of {}'s recipe, in {}: relative paths start from the folder that "
                                  "the command runs in",
                                  hone::quoted(path), option, run, fs::current_path(ignored).string()));
    return std::move(error).hint(fmt::format(
        "run it in the folder that the run was started in, or say where it is now: --{0}=... --override {0}", option));
  }
  return error;
}

}  // namespace hone::cli
