// The layers of a command's recipe.
#include "cli/recipe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "config/command_line.h"
#include "hone/config_read.h"
#include "hone/registry.h"

namespace hone::cli {

namespace {

// Parts of an option's name are parted by two underscores, of which one is easily forgotten: nothing else would say so.
// HONE_RUN_FOLDER is what callbacks of ours tell the commands that they run.
void tell_lone_underscores() {
  for (const char* const* one = environ; *one; ++one) {
    const std::string name(*one, std::string_view(*one).find('='));
    if (!name.starts_with("HONE_") || name.find("__") != std::string::npos || name == "HONE_RUN_FOLDER") continue;
    const std::vector<std::string> words = split(to_lower(name.substr(5)), '_');
    for (unsigned parted = 1; words.size() < 8 && parted < 1u << (words.size() - 1); ++parted) {
      std::string option = words[0];
      for (std::size_t i = 1; i < words.size(); ++i) option += (parted >> (i - 1) & 1 ? "." : "_") + words[i];
      if (!on_resume(Recipe(), option)) continue;
      std::string meant = replace_all(option, ".", "__");
      std::transform(meant.begin(), meant.end(), meant.begin(), [](unsigned char c) { return std::toupper(c); });
      log::warning("{} sets nothing; HONE_{} sets {}", name, meant, option);
      break;
    }
  }
}

// Of a list of one its number may be left out.
std::string without_first_numbers(const std::string& path) { return replace_all(path, ".0.", "."); }

// Who gives a list twice may want both; of anything else the last one counts, as scripts that add to a line rely on.
void look_for_doubles(const RecipeOverrides& flags) {
  static std::set<std::string> told;
  std::map<std::string, std::pair<std::string, std::string>> before;
  Problems problems;
  for (const auto& given : flags) {
    const auto& [path, value] = given;
    const auto [entry, is_first] = before.try_emplace(without_first_numbers(path), given);
    const auto& [earlier, earlier_value] = entry->second;
    if (is_first || earlier_value == value) continue;
    const std::vector<config::OptionInfo> rows = config::describe(Recipe());
    const bool is_list = std::any_of(rows.begin(), rows.end(), [&](const config::OptionInfo& row) {
      return row.path == path && row.type.starts_with("list");
    });
    if (is_list)
      problems.add(path, fmt::format("given twice, expected once, with all that the list has: '--{}=[a, b]'", path), "",
                   {"--" + path, 0});
    else if (told.insert(path).second)
      log::warning("--{}: given twice{}; the last one counts", path,
                   earlier == path ? "" : fmt::format(", once as --{}", earlier));
  }
  problems.raise();
}

}  // namespace

RecipeLayers recipe_layers(const Invocation& call, const std::vector<std::string>& set, const std::string& file) {
  static std::once_flag told;
  std::call_once(told, tell_lone_underscores);
  look_for_doubles(call.overrides);
  return {.file = file, .set = set, .environment = config::environment_overrides(environ), .flags = call.overrides};
}

Recipe whole_recipe(const Invocation& call, const std::vector<std::string>& set, const std::string& file,
                    const std::string& folder, UnknownKeys unknown) {
  RecipeLayers layers =
      recipe_layers(call, set, !file.empty() || call.positionals.empty() ? file : call.positionals[0]);
  if (!folder.empty()) layers.environment.insert(layers.environment.begin(), {"run.folder", folder});
  layers.unknown = unknown;
  return read_recipe(layers);
}

std::vector<std::string> recipe_switches() {
  std::vector<std::string> names;
  const auto add = [&](const std::string& before, const std::vector<config::OptionInfo>& rows) {
    for (const config::OptionInfo& row : rows)
      if (row.type == "boolean") names.push_back(before + row.path);
  };
  const std::vector<config::OptionInfo> rows = config::describe(Recipe());
  add("", rows);
  for (const config::OptionInfo& row : rows) {
    const config::Catalogue* catalogue = row.catalogue.empty() ? nullptr : config::find_catalogue(row.catalogue);
    if (!catalogue) continue;
    for (const std::string& name : catalogue->names()) add(row.path + ".", catalogue->options(name)->describe());
  }
  return names;
}

}  // namespace hone::cli
