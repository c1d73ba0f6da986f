// The loss of a head that is to come near to what a teacher has said beforehand of its likeliest tokens.
//
// Letters: N tokens, K tokens that were said of each, V vocabulary, C tokens of a chunk.
#pragma once

#include "ops/divergence.h"

namespace hone::ops {

namespace reference {
// As taught_losses(), of a teacher that is stored: KL(teacher || model), summed over what was said. The teacher's
// probabilities are those of these tokens alone, brought to the temperature; the model's are of the whole vocabulary,
// or with among_said of these tokens alone, too. Where nothing was said the divergence is 0.
TaughtLosses stored_losses(const at::Tensor& logits_NV, const at::Tensor& labels_N, const Teacher& teacher);
}  // namespace reference

// As taught_loss(), with what was said of the chunk's tokens.
void stored_loss(at::Tensor& logits_CV, const Said& said, const LossTargets& targets, bool gradient,
                 const Teacher& teacher, at::Tensor& losses_C, at::Tensor& statistics_C4);

}  // namespace hone::ops
