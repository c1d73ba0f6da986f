// A memory of a pass that is corrected, and the short convolution before it.
#include <ATen/ATen.h>

#include "hone/memory_layers.h"
#include "nn/context.h"
#include "nn/kv_cache.h"
#include "nn/own_channels.h"
#include "nn/plan.h"
#include "ops/gated_delta.h"
#include "ops/short_conv.h"

namespace hone::nn {

Tensor gated_delta(const Tensor& q_NGK, const Tensor& k_NGK, const Tensor& v_NHV, const Tensor& decay_NH,
                   const Tensor& step_NH, Pass& pass) {
  const ops::DeltaInput input{q_NGK, k_NGK, v_NHV, decay_NH, step_NH};
  const Plan& plan = pass.plan();
  if (pass.cache) return pass.cache->gated_delta(pass.layer, input, plan);
  Tensor y_NHV;
  if (const Context* context = plan.context()) {
    const auto all = context->to_heads({q_NGK, k_NGK, v_NHV, decay_NH, step_NH});
    y_NHV = context->to_tokens(ops::gated_delta({all[0], all[1], all[2], all[3], all[4]}, plan.documents()));
  } else {
    const auto there = [&](const Tensor& x) { return plan.to_documents(x); };
    y_NHV = plan.from_documents(ops::gated_delta(
        {there(q_NGK), there(k_NGK), there(v_NHV), there(decay_NH), there(step_NH)}, plan.documents()));
  }
  pass.sow("gated_delta", y_NHV);
  return y_NHV;
}

ShortConvolution::ShortConvolution(std::int64_t channels, std::int64_t taps, Options options)
    : weight(parameter("weight", {channels, 1, taps}, {.std = options.std})),
      bias(options.bias ? &parameter("bias", {channels}, {.kind = Init::Kind::zeros}, /*decays=*/false) : nullptr),
      silu_(options.silu) {}

Tensor ShortConvolution::operator()(const Tensor& x_NC, Pass& pass) const {
  const Plan& plan = pass.plan();
  const ops::ShortConvWeights weights{weight.use().squeeze(1), bias ? bias->use() : Tensor(), silu_};
  if (pass.cache) return pass.cache->short_conv(pass.layer, x_NC, weights, plan);
  if (const Context* context = plan.context()) return short_conv_of_own_channels(x_NC, weights, *context, plan);
  return plan.from_documents(ops::short_conv(plan.to_documents(x_NC), weights, plan.documents(),
                                             {weight.gradient_sum(), bias ? bias->gradient_sum() : nullptr}));
}

}  // namespace hone::nn
