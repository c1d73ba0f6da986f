// What is said of keys that no option has: what was meant, as far as a misspelling or another trainer's name tells.
#include <algorithm>

#include "base/strings.h"
#include "config/other_names.h"
#include "hone/config_read.h"

namespace hone::config::detail {
namespace {

bool is_among(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// a.b as it is written on the command line is a: {b: ...} in a file. "": it begins with no section that is known.
std::string as_sections(const std::string& path, const std::vector<std::string>& known,
                        const std::string& value = "...") {
  const std::vector<std::string> parts = split(path, '.');
  if (parts.size() < 2 || !is_among(known, parts[0])) return "";
  return join(parts, ": {") + ": " + value + std::string(parts.size() - 1, '}');
}

// Whether what is unknown here may be meant for `option`: in a recipe or one of its sections for any, in a section
// below one for what it has itself; not in an entry of a list, whose names are many things'.
bool may_mean(const std::vector<std::string>& known, const std::string& path, const std::string& option) {
  if (path.empty()) return is_among(known, "trainer") && is_among(known, "optimizer");
  const std::vector<std::string> parts = split(path, '.');
  const bool is_of_recipe =
      is_among({"data", "model", "adapter", "objective", "optimizer", "trainer", "parallel", "run"}, parts[0]);
  return is_of_recipe && (parts.size() == 1 || (parts[0] != "data" && parts.size() == 2 &&
                                                (option == path || option.starts_with(path + "."))));
}

// For a name that other trainers have.
std::string translated(const std::string& key, const Node& given, const std::vector<std::string>& known,
                       const std::string& path) {
  const OtherName* const other = other_name(key);
  if (!other) return "";
  const std::string option(other->option), value = value_for(*other, given.text());
  const std::string last = option.substr(option.rfind('.') + 1);  // of none: npos + 1 is 0
  const std::string tail = value.empty() ? "" : ": " + value;
  if (!path.empty() && is_among(known, last)) return path + "." + last + tail;
  if (!may_mean(known, path, option) || option == path + "." + key) return "";
  const std::string sections = path.empty() && given.mark().line > 0 && option.find(".0.") == std::string::npos
                                   ? as_sections(option, known, value.empty() ? "..." : value)
                                   : "";
  return sections.empty() ? option + tail : sections;
}

}  // namespace

void report_unknown(const Node& node, const std::vector<std::string>& known, const At& at) {
  // A section that stands for a list of one, as wrap_single_entries() leaves it, was written without a number.
  const bool is_alone = node.mark().file.empty() && at.path.ends_with(".0");
  const std::string path = is_alone ? at.path.substr(0, at.path.size() - 2) : at.path;
  for (const auto& [key, entry] : node.entries()) {
    if (is_among(known, key)) continue;
    std::string suggestion = as_sections(key, known);
    if (suggestion.empty()) suggestion = translated(key, entry, known, path);
    if (suggestion.empty()) {
      suggestion = nearest(key, known);
      if (!suggestion.empty() && !path.empty()) suggestion = path + "." + suggestion;
    }
    at.problems.add_unknown(path.empty() ? key : path + "." + key, suggestion, entry.mark());
  }
}

}  // namespace hone::config::detail
