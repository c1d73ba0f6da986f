// Attention of a pass, and where its tokens stand.
#include "hone/layers.h"

#include <ATen/ATen.h>

#include "hone/random.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"
#include "tensor/host.h"

namespace hone::nn {

Tensor attend(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass,
              ops::AttentionOptions options) {
  if (!pass.training) options.dropout = 0;
  if (options.dropout > 0) options.seed = Random(pass.seed, "attention").bits(static_cast<std::uint64_t>(pass.layer));
  if (pass.cache) return pass.cache->attend(pass.layer, q_NHK, k_NGK, v_NGK, pass.plan(), options);
  return ops::attention(q_NHK, k_NGK, v_NGK, pass.plan().spans(), options);
}

Tensor positions(Pass& pass) {
  const Plan& plan = pass.plan();
  const Tensor flat_1N1 = at::empty({1, plan.tokens(), 1}, at::kLong);
  const std::span<std::int64_t> at = host::mutable_values<std::int64_t>(flat_1N1);
  for (const PlannedDoc& doc : plan.docs())
    for (std::int64_t i = doc.span.begin; i < doc.span.end; ++i) at[i] = doc.position + i - doc.span.begin;
  return plan.from_flat(flat_1N1.to(pass.batch.ids_BT.device())).squeeze(-1);
}

}  // namespace hone::nn
