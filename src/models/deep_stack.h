// What a tower's earlier blocks give of pictures, which the first layers of the texts' model read, too (DeepStack: Meng
// et al., 2024, arXiv:2406.04334).
//
// Letters in tensor names: M tokens of pictures, D hidden.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hone/layers.h"
#include "models/pictures.h"
#include "nn/plan.h"

namespace hone::models {

inline std::string left_for(std::int64_t layer) { return fmt::format("pictures.{}", layer); }

// made: a tower's last output, [M, D], which it returns, then what layers 0, 1, … are to read.
inline Tensor leave_for_layers(const std::vector<Tensor>& made, const Tensor& like, Pass& pass) {
  for (std::size_t i = 1; i < made.size(); ++i)
    pass.plan().left()[left_for(static_cast<std::int64_t>(i) - 1)] = made[i].to(like.scalar_type());
  return made[0];
}

// Behind this layer's own sums.
inline void add_left(nn::Residual& x, std::int64_t layer, Pass& pass) {
  const auto& left = pass.plan().left();
  if (const auto found = left.find(left_for(layer)); found != left.end()) x += at_pictures(found->second, pass);
}

}  // namespace hone::models
