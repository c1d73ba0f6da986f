// Products with weights in fp8, and what goes back (torchao's float8 training; Micikevicius et al., 2022,
// arXiv:2209.05433): x W^T, dy W and dy^T x, each of two factors that are cast anew from what the run computes in.
//
// Letters: N tokens, I inputs, O outputs.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <utility>
#include <vector>

#include "hone/gradient_sum.h"
#include "hone/precision.h"
#include "ops/primitives.h"

namespace hone::ops {

Float8By float8_on(at::Device device);

// One input of products, or the gradient of their result, in the forms of fp8 that these ask for: each is made once.
class Float8Source {
 public:
  Float8Source(at::Tensor x_NC, bool is_gradient) : x_NC_(std::move(x_NC)), is_gradient_(is_gradient) {}
  const Float8Matrix& rows(Float8 recipe);     // [N, C]
  const Float8Matrix& columns(Float8 recipe);  // [C, N]

 private:
  const Float8Matrix& form(std::vector<std::pair<Float8, Float8Matrix>>& made, Float8 recipe, bool turned);
  at::Tensor x_NC_;
  bool is_gradient_;
  std::vector<std::pair<Float8, Float8Matrix>> rows_, columns_;
};

// Of y = x W^T, and of dx = dy W.
Float8Factors float8_forward(Float8Source& x_NI, const at::Tensor& weight_OI, Float8 recipe);
Float8Factors float8_back(Float8Source& dy_NO, const at::Tensor& weight_OI, Float8 recipe);

// out = the sum of all products, those in fp8 and others, rounded once. fast: sums in fp8 may be rounded on the way,
// where hardware is faster so.
void float8_into(at::Tensor& out_MN, const std::vector<Float8Factors>& factors, const std::vector<Factors>& others,
                 bool fast);

// As weight_gradient().
at::Tensor float8_weight_gradient(Float8Source& dy_NO, Float8Source& x_NI, Float8 recipe, at::ScalarType type,
                                  GradientSum* sum);

}  // namespace hone::ops
