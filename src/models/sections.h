// Sections of config.json that are configurations by themselves: text_config, vision_config.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "config/hf_keys.h"
#include "hone/config_read.h"

namespace hone::models {

// Without keys that change nothing, which transformers writes into each section; strict about all others.
template <class T>
void read_section(const config::Open& section, const std::string& name, T& into, Problems& problems) {
  const config::Node& given = section.node;
  if (given.is_null()) return;
  if (!given.is_map()) return problems.add(name, "expected a section", "", given.mark());
  const std::vector<std::string> own = config::Values<T>::names();
  config::Node node = config::Node::map({}, given.mark());
  for (const auto& [key, value] : given.entries()) {
    const bool is_own = std::find(own.begin(), own.end(), key) != own.end();
    if (config::changes_nothing(key) || (value.is_null() && !is_own)) continue;
    node.at_or_add(key) = value;
  }
  config::Values<T>::read(node, into, {problems, name, {}});
}

// A section, and what it means by resolve(into, more..., problems), whose problems are named by it. Of one that cannot
// be read nothing.
template <class T, class... More>
auto read_part(const config::Open& section, const char* name, T& into, Problems& problems, const More&... more) {
  const std::size_t before = problems.size();
  read_section(section, name, into, problems);
  if (problems.size() != before) return decltype(resolve(into, more..., problems)){};
  const Problems::Scope scope(problems, std::string(name) + ".");
  return resolve(into, more..., problems);
}

// Of a section that is written.
inline config::Node without(config::Node section, std::initializer_list<std::string_view> keys) {
  std::erase_if(section.entries(), [&](const config::Node::Entry& entry) {
    return std::find(keys.begin(), keys.end(), entry.first) != keys.end();
  });
  return section;
}

}  // namespace hone::models
