// Attention by content and distance, in a pass.
#include "nn/disentangled.h"

#include <ATen/ATen.h>

#include "hone/random.h"
#include "nn/plan.h"

namespace hone::nn {

Tensor attend_by_distance(const Tensor& q_NHK, const Tensor& k_NHK, const Tensor& v_NHK,
                          const ops::DistanceScores& distances, Pass& pass, ops::AttentionOptions options) {
  HONE_ASSERT(!pass.cache);
  if (!pass.training) options.dropout = 0;
  if (options.dropout > 0) options.seed = Random(pass.seed, "attention").bits(static_cast<std::uint64_t>(pass.layer));
  const Plan& plan = pass.plan();
  Tensor y_NHK =
      plan.from_documents(ops::disentangled_attention(plan.to_documents(q_NHK), plan.to_documents(k_NHK),
                                                      plan.to_documents(v_NHK), distances, plan.documents(), options));
  pass.sow("attention", y_NHK);
  return y_NHK;
}

}  // namespace hone::nn
