// Attention of a pass.
#include "nn/attend.h"

#include "hone/random.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"

namespace hone::nn {

Tensor attend(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass, ops::AttentionOptions options) {
  if (!pass.training) options.dropout = 0;
  if (options.dropout > 0) options.seed = Random(pass.seed, "attention").bits(static_cast<std::uint64_t>(pass.layer));
  if (pass.cache) return pass.cache->attend(pass.layer, q_NHK, k_NGK, v_NGK, pass.plan(), options);
  return ops::attention(q_NHK, k_NGK, v_NGK, pass.plan().spans(), options);
}

}  // namespace hone::nn
