// The factor of the loss of a run in fp16, by which small gradients do not become 0. Where it makes others too large,
// that update is left out and the factor halved. As torch.amp.GradScaler.
#pragma once

#include <cstdint>

#include "hone/training_section.h"

namespace hone::training {

// Part of the run's state.
struct LossScale {
  double factor = 1;
  std::int64_t updates = 0;    // since the factor is what it is
  std::int64_t overflows = 0;  // updates left out for it

  bool is_unused() const { return factor == 1 && updates == 0 && overflows == 0; }  // as of a run that has none
  // After gradients that were not finite; false: it is 1 already, and so not what made them that.
  bool shrink();
  void grow(const LossScaleSection& options);  // after an update
};

}  // namespace hone::training
