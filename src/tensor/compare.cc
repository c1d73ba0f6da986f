// Compares tensors and says where they differ most.
#include "tensor/compare.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tensor/dtype.h"

namespace hone {

double largest(const at::Tensor& x) { return x.numel() == 0 ? 0.0 : x.detach().abs().max().item<double>(); }

std::string difference(const at::Tensor& got, const at::Tensor& expected, double tolerance) {
  if (got.sizes() != expected.sizes())
    return fmt::format("shape: got {}, expected {}", shape_text(got.sizes()), shape_text(expected.sizes()));
  if (got.numel() == 0) return "";
  const at::Tensor a = got.detach().to(at::kCPU, at::kDouble).flatten(),
                   b = expected.detach().to(at::kCPU, at::kDouble).flatten();
  // Equal infinities agree; what is not comparable (NaN) counts as infinitely far.
  const at::Tensor far = at::where(a == b, at::zeros_like(a), (a - b).abs()).nan_to_num(INFINITY, INFINITY);
  const std::int64_t worst = far.argmax().item<std::int64_t>();
  if (far[worst].item<double>() <= tolerance) return "";
  std::vector<std::int64_t> index(got.dim());
  for (std::int64_t d = got.dim() - 1, rest = worst; d >= 0; --d) {
    index[d] = rest % got.size(d);
    rest /= got.size(d);
  }
  return fmt::format("at {}: got {:.9g}, expected {:.9g}, off by {:.3g}, allowed {:.3g}", shape_text(index),
                     a[worst].item<double>(), b[worst].item<double>(), far[worst].item<double>(), tolerance);
}

}  // namespace hone
