// The likeliest token, by the device's table.
#include "ops/likeliest.h"

#include <ATen/ATen.h>

#include "ops/backend.h"

namespace hone::ops {

at::Tensor likeliest(const at::Tensor& logits_RV) {
  const Backend* backend = backend_for({logits_RV});
  return (backend ? *backend : reference_backend()).sums.likeliest(logits_RV);
}

at::Tensor likeliest_then(const at::Tensor& logits_RV, const NextStep& next) {
  const Backend* backend = backend_for({logits_RV});
  if (backend && backend->sums.likeliest_then) return backend->sums.likeliest_then(logits_RV, next);
  at::Tensor made = likeliest(logits_RV);
  next.ids_R1.copy_(made.clamp_min(0).unsqueeze(1));
  for (at::Tensor held : next.held_R) held.add_(1);
  return made;
}

}  // namespace hone::ops
