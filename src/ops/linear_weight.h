// A weight of products, its bias, and where their gradients go.
//
// Letters: I inputs, O outputs, R rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hone/gradient_sum.h"
#include "hone/precision.h"

namespace hone::ops {

struct Quantized;  // quantized.h

// What is added to a product: scale * B (A x).
struct LowRank {
  at::Tensor a_RI, b_OR;
  double scale = 1;
  GradientSum *a_sum = nullptr, *b_sum = nullptr;  // as a weight's
};

struct LinearWeight {
  at::Tensor weight_OI;
  at::Tensor bias_O = {};                           // undefined: none
  GradientSum *sum = nullptr, *bias_sum = nullptr;  // take their gradients; null: autograd does
  std::vector<LowRank> low_ranks = {};
  Float8 float8 = Float8::off;  // of its products; those of low ranks stay as they are
  const Quantized* quantized = nullptr;  // what the weight is held as, for who does without weight_OI
};

// Some of a matrix' rows that follow one another, few (ops/skinny.h), and what they are multiplied with.
struct SkinnyGroup {
  std::int64_t rows;
  const LinearWeight* weight;
};

}  // namespace hone::ops
