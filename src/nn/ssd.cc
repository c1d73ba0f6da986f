// A state space of a pass.
#include "ops/ssd.h"

#include "hone/memory_layers.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"

namespace hone::nn {

Tensor ssd(const Tensor& c_NGK, const Tensor& b_NGK, const Tensor& x_NHV, const Tensor& decay_NH, const Tensor& step_NH,
           const Tensor& skip_H, Pass& pass) {
  const ops::SsdInput input{c_NGK, b_NGK, x_NHV, decay_NH, step_NH, skip_H};
  const Plan& plan = pass.plan();
  if (pass.cache) return pass.cache->ssd(pass.layer, input, plan);
  const auto there = [&](const Tensor& x) { return plan.to_documents(x); };
  Tensor y_NHV = plan.from_documents(
      ops::ssd({there(c_NGK), there(b_NGK), there(x_NHV), there(decay_NH), there(step_NH), skip_H}, plan.documents()));
  pass.sow("ssd", y_NHV);
  return y_NHV;
}

}  // namespace hone::nn
