// The primitives in plain ATen: for any device, and for types that no kernel takes.
#pragma once

#include "ops/backend.h"

namespace hone::ops::reference_table {

Backend::Products products();
Backend::Attention attention();
Backend::Norms norms();
Backend::Mlstm mlstm();
Backend::GatedDelta gated_delta();
Backend::Ssd ssd();
Backend::SelectiveScan selective_scan();
Backend::ShortConv short_conv();
Backend::Elementwise elementwise();
Backend::Sums sums();
Backend::Routed routed();

at::Tensor widened(const at::Tensor& x);  // in fp32 at least

// Rows and columns [first, first + count) of what ops/dropout_words.h has words for: the 31 bits of each place, int64;
// and where it keeps numbers, as 0 and 1 in `like`'s type, there.
struct Range {
  std::int64_t first = 0, count = 0;
};
at::Tensor random_bits(const std::vector<std::uint32_t>& row_words, Range rows,
                       const std::vector<std::uint32_t>& column_words, Range columns, at::Device device);
at::Tensor kept(const std::vector<std::uint32_t>& row_words, Range rows,
                const std::vector<std::uint32_t>& column_words, Range columns, double rate, const at::Tensor& like);

}  // namespace hone::ops::reference_table
