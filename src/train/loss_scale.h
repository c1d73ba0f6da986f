// The factor of the loss of a run in fp16: gradients that would be too small for the type are not, and those that
// become too large are noticed and made again in the next step with a smaller one. As torch.amp.GradScaler.
#pragma once

#include <cstdint>

#include "hone/training_section.h"

namespace hone::training {

// Part of the run's state.
struct LossScale {
  double factor = 1;
  std::int64_t updates = 0;    // since the factor is what it is
  std::int64_t overflows = 0;  // updates left out for it

  // After gradients that were not finite; false: it is 1 already, and so not what made them that.
  bool shrink();
  void grow(const LossScaleSection& options);  // after an update
};

}  // namespace hone::training
