// Soft caps of logits.
#include "ops/soft_cap.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>

#include "ops/backend.h"

namespace hone::ops {

at::Tensor soft_capped(const at::Tensor& x, double cap) { return cap > 0 ? at::tanh(x / cap) * cap : x; }

void soft_cap_in_place(at::Tensor& logits_CV, double cap, at::Tensor slope_CV) {
  constexpr std::int64_t kShare = 32;  // of a chunk's room: what is made of it in fp32 is to stay in a cache
  const auto wide = at::toOpMathType(logits_CV.scalar_type());
  const std::int64_t values = backend_of(logits_CV).sums.chunk_bytes() / kShare, rows = logits_CV.size(0);
  const std::int64_t step = std::max<std::int64_t>(1, values / logits_CV.size(1));
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const std::int64_t count = std::min(step, rows - begin);
    at::Tensor part = logits_CV.narrow(0, begin, count);
    const at::Tensor share = (part.to(wide) / cap).tanh_();
    if (slope_CV.defined()) slope_CV.narrow(0, begin, count).copy_(1 - share.square());
    part.copy_(share * cap);
  }
}

}  // namespace hone::ops
