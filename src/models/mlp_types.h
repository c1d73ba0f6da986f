// Which layers have experts, as config.json lists them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "hone/config.h"

namespace hone::models {

inline void read_mlp_types(const std::vector<std::string>& types, std::int64_t layers, std::vector<bool>& sparse,
                           Problems& problems) {
  problems.require(std::ssize(types) == layers, "mlp_layer_types",
                   fmt::format("got {} entries, expected num_hidden_layers ({})", types.size(), layers));
  for (std::size_t i = 0; i < std::min(types.size(), sparse.size()); ++i) {
    problems.require(types[i] == "sparse" || types[i] == "dense", fmt::format("mlp_layer_types.{}", i),
                     fmt::format("got \"{}\", expected sparse or dense", types[i]));
    sparse[i] = types[i] == "sparse";
  }
}

inline std::vector<std::string> mlp_types(const std::vector<bool>& sparse) {
  std::vector<std::string> types;
  for (const bool one : sparse) types.push_back(one ? "sparse" : "dense");
  return types;
}

}  // namespace hone::models
