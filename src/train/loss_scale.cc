// The factor of the loss of a run in fp16.
#include "train/loss_scale.h"

namespace hone::training {

bool LossScale::shrink() {
  if (factor <= 1) return false;
  factor = factor / 2 > 1 ? factor / 2 : 1;
  updates = 0;
  overflows += 1;
  return true;
}

void LossScale::grow(const LossScaleSection& options) {
  constexpr double kMost = 0x1p+60;  // far above what any gradient needs, far below what fp32 holds
  if (++updates < options.grow_every) return;
  updates = 0;
  if (factor < kMost) factor *= 2;
}

}  // namespace hone::training
