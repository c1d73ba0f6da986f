// Tokens drawn from what a head says.
#pragma once

#include "hone/layers.h"
#include "hone/random.h"

namespace hone::nn {

// Of labels_BT those that are not -100, each replaced by a token drawn with the probability that the head gives it
// there.
Tensor draw_labels(const Head& head, const Tensor& hidden_BTD, const Tensor& labels_BT, const Pass& pass,
                   const Random& random);

}  // namespace hone::nn
