// A matrix memory of a pass, and the norm behind it.
#include "ops/mlstm.h"

#include "hone/memory_layers.h"
#include "nn/context.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"
#include "ops/head_norm.h"

namespace hone::nn {

Tensor mlstm(const Tensor& q_NHK, const Tensor& k_NHK, const Tensor& v_NHV, const Tensor& input_NH,
             const Tensor& forget_NH, double eps, Pass& pass) {
  const ops::MlstmInput input{q_NHK, k_NHK, v_NHV, input_NH, forget_NH};
  const Plan& plan = pass.plan();
  if (pass.cache) return pass.cache->mlstm(pass.layer, input, plan, eps);
  Tensor h_NHV;
  if (const Context* context = plan.context()) {
    const auto all = context->to_heads({q_NHK, k_NHK, v_NHV, input_NH, forget_NH});
    h_NHV = context->to_tokens(ops::mlstm({all[0], all[1], all[2], all[3], all[4]}, plan.documents(), eps));
  } else {
    const auto there = [&](const Tensor& x) { return plan.to_documents(x); };
    h_NHV = plan.from_documents(ops::mlstm(
        {there(q_NHK), there(k_NHK), there(v_NHV), there(input_NH), there(forget_NH)}, plan.documents(), eps));
  }
  pass.sow("mlstm", h_NHV);
  return h_NHV;
}

GatedHeadNorm::GatedHeadNorm(std::int64_t heads, std::int64_t head_size, double eps)
    : weight(parameter("weight", {heads * head_size}, {.kind = Init::Kind::ones}, /*decays=*/false)), eps_(eps) {}

Tensor GatedHeadNorm::operator()(const Tensor& x_NHK, const Tensor& gate) const {
  return ops::gated_head_norm(x_NHK, gate, weight.use(), eps_, weight.gradient_sum());
}

}  // namespace hone::nn
