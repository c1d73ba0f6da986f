// Attention of a pass, and where its tokens stand.
#include "hone/layers.h"

#include <ATen/ATen.h>

#include "hone/random.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"
#include "ops/rope.h"
#include "tensor/device.h"

namespace hone::nn {
namespace {

// rope: by which q and k are yet to be rotated; null: they are.
Tensor attend(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, const ops::RopeTable* rope, Pass& pass,
              ops::AttentionOptions options) {
  if (!pass.training) options.dropout = 0;
  if (options.dropout > 0) options.seed = Random(pass.seed, "attention").bits(static_cast<std::uint64_t>(pass.layer));
  const Plan& plan = pass.plan();
  if (pass.cache) return pass.cache->attend(pass.layer, q_NHK, k_NGK, v_NGK, plan, options, rope);
  const auto [q, k, v] = rope ? ops::rope_beside(q_NHK, k_NGK, v_NGK, *rope) : ops::Rotated{q_NHK, k_NGK, v_NGK};
  Tensor y_NHK = plan.from_documents(ops::attention(plan.to_documents(q), plan.to_documents(k), plan.to_documents(v),
                                                    plan.documents(), options));
  pass.sow("attention", y_NHK);
  return y_NHK;
}

}  // namespace

Tensor attend(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass,
              ops::AttentionOptions options) {
  return attend(q_NHK, k_NGK, v_NGK, nullptr, pass, options);
}

Tensor attend_rotated(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, const ops::RopeTable& rope,
                      Pass& pass, ops::AttentionOptions options) {
  return attend(q_NHK, k_NGK, v_NGK, &rope, pass, options);
}

Tensor positions(Pass& pass) {
  const Plan& plan = pass.plan();
  if (plan.is_one_token_each()) return pass.cache->positions_R(pass.batch.ids_BT.device()).unsqueeze(1);
  if (plan.positions_N().defined()) return pass.batch.positions_BT;
  const Tensor flat_N = plan.from_documents(plan.each_token([](const PlannedDoc& doc) { return doc.position; }));
  return plan.from_flat(devices::sent(flat_N.view({1, -1, 1}), pass.batch.ids_BT.device())).squeeze(-1);
}

}  // namespace hone::nn
