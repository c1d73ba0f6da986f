// For tests of what chooses by the level and uses none of its instructions: such as AMX's choice of matrix products.
#pragma once

#include "ops/kernels.h"

namespace hone::ops {

// The level while alive, whatever the machine has. Not thread-safe.
class PretendLevel {
 public:
  explicit PretendLevel(Level level);
  ~PretendLevel();
  PretendLevel(const PretendLevel&) = delete;

 private:
  Level old_;
};

}  // namespace hone::ops
