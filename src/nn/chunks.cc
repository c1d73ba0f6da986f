// Attention in chunks.
#include "nn/chunks.h"

#include <ATen/ATen.h>

#include "hone/random.h"
#include "nn/chunked_documents.h"
#include "nn/kv_cache.h"

namespace hone::nn {

Tensor attend_in_chunks(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, std::int64_t chunk, Pass& pass,
                        const ops::AttentionOptions& given) {
  Plan& plan = pass.plan();
  HONE_ASSERT(!plan.context() && given.mask.kind == ops::Mask::Kind::causal && given.mask.window == 0);
  ops::AttentionOptions options = given;
  if (!pass.training) options.dropout = 0;
  if (options.dropout > 0) options.seed = Random(pass.seed, "attention").bits(static_cast<std::uint64_t>(pass.layer));
  if (pass.cache) {
    plan.do_not_last();  // where a chunk begins, the next step is another one
    return pass.cache->attend_in_chunks(pass.layer, q_NHK, k_NGK, v_NGK, plan, options, chunk);
  }
  if (plan.row_length() <= chunk || is_within_chunk(plan, chunk)) return attend(q_NHK, k_NGK, v_NGK, pass, given);
  const auto there = [&](const Tensor& x) { return plan.to_documents(x); };
  const Tensor y_NHK =
      plan.from_documents(ops::attention(there(q_NHK), there(k_NGK), there(v_NGK), in_chunks(plan, chunk), options));
  pass.sow("attention", y_NHK);
  return y_NHK;
}

}  // namespace hone::nn
