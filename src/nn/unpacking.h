// Weights that are held in fewer bits, whole while their block is computed with.
#pragma once

#include "hone/model.h"

namespace hone::nn {

// Sees to it that a model's passes find them, if it has some: Model::set_unpacking(). REQUIRES: all in blocks.
void unpack_in_blocks(Model& model);

// Of a module, or of none that is there.
struct Held {
  std::int64_t weights = 0;            // that are held in fewer bits
  std::uint64_t bytes = 0, whole = 0;  // what they take, and would take in the type that is computed in
  std::uint64_t whole_now = 0;         // what those take besides that are whole for the moment
};
Held held_in_few_bits(const Module& module);

}  // namespace hone::nn
