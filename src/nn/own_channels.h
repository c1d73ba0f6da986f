// A short convolution where several ranks compute a batch: of some channels of all tokens.
#pragma once

#include "nn/context.h"
#include "nn/plan.h"
#include "ops/short_conv.h"

namespace hone::nn {

inline Tensor short_conv_of_own_channels(const Tensor& x_NC, const ops::ShortConvWeights& weights,
                                         const Context& context, const Plan& plan) {
  ops::ShortConvWeights own = weights;
  own.weight_CT = context.own_heads(weights.weight_CT);
  if (weights.bias_C.defined()) own.bias_C = context.own_heads(weights.bias_C);
  return context.to_tokens(ops::short_conv(context.to_heads({x_NC})[0], own, plan.documents(), {}));
}

}  // namespace hone::nn
