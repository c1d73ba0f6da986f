// Regular expressions that callbacks choose weights by.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "base/strings.h"
#include "hone/error.h"
#include "hone/model.h"

namespace hone::callbacks {

// Throws Error(config) where `regex`, of this pattern, is found in the name of no weight that is trained.
inline void require_match(Model& model, const std::string& callback, const std::string& pattern,
                          const std::regex& regex) {
  std::vector<std::string> names;
  model.each_with_adapters([&](const std::string& name, const Weight& weight) {
    if (weight.trainable()) names.push_back(name);
  });
  if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return std::regex_search(name, regex); })) return;
  throw Error(ErrorKind::config, fmt::format("callback {}: match: {} is found in the name of no trained weight: {}",
                                             callback, hone::quoted(pattern), list_names(names, 4)))
      .hint("`hone inspect model RECIPE` lists them all");
}

}  // namespace hone::callbacks
