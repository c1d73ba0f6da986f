// Gated delta nets (nn::gated_delta) in some layers of a decoder: their sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "hone/model.h"

namespace hone::models {

struct DeltaShape {
  std::vector<bool> remembers;  // per layer: has a memory, not attention
  std::int64_t taps = 0, key_size = 0, value_size = 0, key_heads = 0, value_heads = 0;  // of memories

  std::int64_t keys() const { return key_heads * key_size; }
  std::int64_t values() const { return value_heads * value_size; }
  std::int64_t convolved() const { return 2 * keys() + values(); }
  MemoryLayer memory() const {
    return {.heads = value_heads,
            .key_size = key_size,
            .value_size = value_size,
            .products = 3,
            .convolved = convolved(),
            .taps = taps};
  }
};

}  // namespace hone::models
