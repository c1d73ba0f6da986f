// Attention of a pass that also goes by how far tokens stand apart.
//
// Letters in tensor names: N tokens, H heads, K head size.
#pragma once

#include "hone/layers.h"
#include "ops/disentangled.h"

namespace hone::nn {

// As attend(), of a model that reads texts whole.
Tensor attend_by_distance(const Tensor& q_NHK, const Tensor& k_NHK, const Tensor& v_NHK,
                          const ops::DistanceScores& distances, Pass& pass, ops::AttentionOptions options);

}  // namespace hone::nn
