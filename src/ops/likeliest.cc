// The likeliest token, by the device's table.
#include "ops/likeliest.h"

#include "ops/backend.h"

namespace hone::ops {

at::Tensor likeliest(const at::Tensor& logits_RV) {
  const Backend* backend = backend_for({logits_RV});
  return (backend ? *backend : reference_backend()).sums.likeliest(logits_RV);
}

}  // namespace hone::ops
