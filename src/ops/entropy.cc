// Entropies of softmax, by LibTorch's own operations.
#include "ops/entropy.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <c10/core/GradMode.h>

namespace hone::ops {
namespace {

at::Tensor in_wide(const at::Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }

}  // namespace

at::Tensor entropy_of_likeliest(const at::Tensor& logits_NV, std::int64_t count) {
  const c10::NoGradGuard no_grad;
  const bool all = count >= logits_NV.size(-1);
  const at::Tensor some_NK = all ? logits_NV : std::get<0>(logits_NV.topk(count));
  return at::special_entr(in_wide(some_NK).softmax(-1)).sum(-1);
}

// H = -sum p log p, so that dH/dl = -p (log p + H).
at::Tensor entropy_gradient(const at::Tensor& logits_NV, const at::Tensor& d_N) {
  const c10::NoGradGuard no_grad;
  const at::Tensor log_p_NV = in_wide(logits_NV).log_softmax(-1), p_NV = log_p_NV.exp();
  const at::Tensor entropy_N1 = -(p_NV * log_p_NV).sum(-1, /*keepdim=*/true);
  return -d_N.unsqueeze(-1) * p_NV * (log_p_NV + entropy_N1);
}

}  // namespace hone::ops
