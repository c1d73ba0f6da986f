// Sums over the last dimension of products, made a part at a time: what is wide on the way stays small.
#pragma once

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <vector>

namespace hone::ops {

// run(first row, rows) for parts of about so many values of all rows; a row has `width` of them.
template <class Run>
void each_part_of_rows(std::int64_t rows, std::int64_t width, Run&& run) {
  constexpr std::int64_t kPart = 1 << 22;
  const std::int64_t step = std::max<std::int64_t>(1, kPart / std::max<std::int64_t>(1, width));
  for (std::int64_t first = 0; first < rows; first += step) run(first, std::min(step, rows - first));
}

// Of each row a . b over the last dimension, in fp32 (fp64).
inline at::Tensor row_products(const at::Tensor& a, const at::Tensor& b) {
  const auto wide = at::toOpMathType(a.scalar_type());
  std::vector<std::int64_t> sizes = a.sizes().vec();
  sizes.pop_back();
  const at::Tensor made = at::empty(sizes, a.options().dtype(wide));
  each_part_of_rows(a.size(0), a.size(0) > 0 ? a.numel() / a.size(0) : 0, [&](std::int64_t first, std::int64_t rows) {
    made.narrow(0, first, rows).copy_(a.narrow(0, first, rows).to(wide).mul(b.narrow(0, first, rows)).sum(-1));
  });
  return made;
}

}  // namespace hone::ops
