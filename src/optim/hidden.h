// Which weights optimizers of matrices train.
#pragma once

#include <regex>

#include "optim/per_weight.h"

namespace hone::optim {

// Between hidden states: neither a table of rows nor a head (what `others` finds), nor a kernel of a convolution.
inline bool is_hidden(const OptimizedWeight& weight, const std::regex& others) {
  const WeightUse use = weight.weight ? weight.weight->use_as() : WeightUse::product;
  const bool kernel = use == WeightUse::other && weight.master.dim() > 2;
  return is_matrix(weight) && use != WeightUse::table && !kernel && !std::regex_search(weight.name, others);
}

inline constexpr const char* kHeads = "(^|\\.)(lm_head|embed_out|score|classifier)\\.";

}  // namespace hone::optim
