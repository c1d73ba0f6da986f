// The first tensor of a step that holds NaN or Inf, in the order in which the step computes.
#pragma once

#include <cstdint>
#include <string>

namespace hone::training {

// `what`: weight (before the step), value (of a layer, forward), loss (a term of it), gradient (backward, where what is
// last in the model comes first); "": none was found.
struct BadTensor {
  std::string what, name;
  std::int64_t micro_batch = -1;  // of the step, counted from 0; -1: of all of them together
  int rank = -1;                  // that had it; -1: all

  std::string text() const;  // "value layers.1.attention, micro-batch 3, on rank 1"
};

}  // namespace hone::training
