// A state space of a pass.
#include "ops/ssd.h"

#include "hone/memory_layers.h"
#include "nn/context.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"

namespace hone::nn {

Tensor ssd(const Tensor& c_NGK, const Tensor& b_NGK, const Tensor& x_NHV, const Tensor& decay_NH, const Tensor& step_NH,
           const Tensor& skip_H, Pass& pass) {
  const ops::SsdInput input{c_NGK, b_NGK, x_NHV, decay_NH, step_NH, skip_H};
  const Plan& plan = pass.plan();
  if (pass.cache) return pass.cache->ssd(pass.layer, input, plan);
  Tensor y_NHV;
  if (const Context* context = plan.context()) {
    const auto all = context->to_heads({c_NGK, b_NGK, x_NHV, decay_NH, step_NH});
    const Tensor skip = skip_H.defined() ? context->own_heads(skip_H) : skip_H;
    y_NHV = context->to_tokens(ops::ssd({all[0], all[1], all[2], all[3], all[4], skip}, plan.documents()));
  } else {
    const auto there = [&](const Tensor& x) { return plan.to_documents(x); };
    y_NHV = plan.from_documents(ops::ssd(
        {there(c_NGK), there(b_NGK), there(x_NHV), there(decay_NH), there(step_NH), skip_H}, plan.documents()));
  }
  pass.sow("ssd", y_NHV);
  return y_NHV;
}

}  // namespace hone::nn
