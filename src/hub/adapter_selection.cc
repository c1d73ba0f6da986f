// PEFT's rules for which modules get an adapter.
#include "hub/adapter_selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::hub {
namespace {

using nlohmann::json;

const json& at(const json& config, const char* key) {
  static const json none;
  const auto found = config.find(key);
  return found == config.end() ? none : *found;
}

// One value is a list of one, null an empty list.
json list_at(const json& config, const char* key) {
  const json& value = at(config, key);
  if (value.is_array()) return value;
  return value.is_null() ? json::array() : json::array({value});
}

[[noreturn]] void refuse(const std::string& file, const char* key, const json& value, const char* expected) {
  throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got {}, expected {}", file, key, value.dump(), expected));
}

bool can_be_read(const std::string& expression) {
  try {
    const std::regex read(expression);
    return true;
  } catch (const std::regex_error&) {
    return false;
  }
}

}  // namespace

bool AdapterSelection::Names::fit(const std::string& module) const {
  if (expression) return std::regex_match(module, std::regex(*expression));
  return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) {
    return module == end || module.ends_with("." + end);
  });
}

AdapterSelection::Names AdapterSelection::names_at(const json& config, const char* key, const std::string& file) {
  const json& value = at(config, key);
  Names names;
  if (value.is_null()) return names;
  if (value.is_string()) {
    names.expression = value.get<std::string>();
    if (!can_be_read(*names.expression)) unread_ = *names.expression;
    return names;
  }
  if (!value.is_array()) refuse(file, key, value, "names, or an expression");
  for (const json& one : value) {
    if (!one.is_string()) refuse(file, key, one, "a name");
    names.ends.push_back(one.get<std::string>());
  }
  return names;
}

void AdapterSelection::read_layers(const json& config, const std::string& file) {
  for (const json& one : list_at(config, "layers_to_transform")) {
    if (!one.is_number_integer()) refuse(file, "layers_to_transform", one, "the number of a layer");
    layers_.push_back(one.get<std::int64_t>());
  }
  for (const json& one : list_at(config, "layers_pattern")) {
    if (!one.is_string()) refuse(file, "layers_pattern", one, "a name");
    if (const std::string pattern = one.get<std::string>(); !can_be_read(pattern)) unread_ = pattern;
    else if (!pattern.empty()) layers_patterns_.push_back(pattern);
  }
}

AdapterSelection::AdapterSelection(const json& config, const std::string& file) {
  const bool lists_none = at(config, "target_modules").is_null();
  targets_ = names_at(config, "target_modules", file);
  excluded_ = names_at(config, "exclude_modules", file);
  if (excluded_.expression && excluded_.expression->empty()) excluded_.expression.reset();  // as PEFT: none
  read_layers(config, file);
  for (const json& one : list_at(config, "target_parameters")) {
    if (!one.is_string()) refuse(file, "target_parameters", one, "a name");
    parameters_.ends.push_back(one.get<std::string>());
  }
  // PEFT chooses by the kind of model where nothing is said, and takes all linear layers by a word.
  const bool by_model = lists_none && at(config, "target_parameters").is_null();
  all_ = by_model || !unread_.empty() || (targets_.expression && to_lower(*targets_.expression) == "all-linear");
}

// The first number behind a name: that of the layer, not of an expert in it.
bool AdapterSelection::in_layers(const std::string& module) const {
  if (layers_.empty()) return true;
  std::vector<std::string> patterns;
  for (const std::string& pattern : layers_patterns_) patterns.push_back("^(?:|.*?\\.)(?:" + pattern + ")\\.(\\d+)\\.");
  if (patterns.empty()) patterns.emplace_back("^.*?\\.[^.]*\\.(\\d+)\\.");
  for (const std::string& pattern : patterns) {
    std::smatch found;
    if (!std::regex_search(module, found, std::regex(pattern))) continue;
    const auto layer = parse_int(found[found.size() - 1].str());
    return layer && std::find(layers_.begin(), layers_.end(), *layer) != layers_.end();
  }
  return false;
}

bool AdapterSelection::selects(const std::string& module) const {
  if (all_ || parameters_.fit(module + ".weight")) return true;
  if (excluded_.fit(module) || !targets_.fit(module)) return false;
  const bool by_name = std::find(targets_.ends.begin(), targets_.ends.end(), module) != targets_.ends.end();
  return by_name || targets_.expression || in_layers(module);
}

}  // namespace hone::hub
