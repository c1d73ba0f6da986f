// Elementwise primitives in plain ATen.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "hone/error.h"
#include "ops/dropout_words.h"
#include "ops/gated.h"
#include "ops/reference/table.h"
#include "ops/routed_parts.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::ops::reference_table {
namespace {

// dy times the activation's slope at x.
at::Tensor activated_backward(const at::Tensor& dy, const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::silu:
      return at::silu_backward(dy, x);
    case Activation::gelu:
      return at::gelu_backward(dy, x);
    case Activation::gelu_tanh:
      return at::gelu_backward(dy, x, "tanh");
    case Activation::relu:
      return at::threshold_backward(dy, x, 0);
  }
  throw Error(ErrorKind::bug, "unknown activation");
}

GatedGradients gated_backward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up, Activation activation,
                              GatedWish wish) {
  const at::Tensor d = widened(dy), g = widened(gate);
  return {activated_backward(d * widened(up), g, activation).to(gate.scalar_type()),
          (d * reference::activate(g, activation)).to(up.scalar_type()),
          wish.inner ? reference::gated(gate, up, activation) : at::Tensor()};
}

void rotate_into(const at::Tensor& y_NHK, const at::Tensor& x_NHK, const RopeTable& table, bool back) {
  const auto per_token = [&](const at::Tensor& values) { return values.index_select(0, table.rows_N).unsqueeze(1); };
  const at::Tensor cos = per_token(table.cos), sin = back ? -per_token(table.sin) : per_token(table.sin);
  const auto halves = widened(x_NHK).chunk(2, -1);
  y_NHK.copy_(at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1));
}

// Words as int64: ATen has no arithmetic of uint32.
at::Tensor words_on(const std::vector<std::uint32_t>& words, Range range, at::Device device) {
  const auto begin = words.begin() + range.first;
  return devices::sent(host::tensor_of(std::vector<std::int64_t>(begin, begin + range.count), {range.count}), device);
}

// The low 32 bits of x times a number; x is below 2^32, and the halves of the number keep it from overflowing.
at::Tensor times(const at::Tensor& x, std::int64_t factor) {
  const at::Tensor high = (x * (factor >> 16)).bitwise_and(0xffff) * 65536;
  return (x * (factor & 0xffff) + high).bitwise_and(0xffffffff);
}

at::Tensor dropout(const at::Tensor& x, double rate, const DropoutSeed& seed) {
  const std::int64_t columns = x.size(-1), rows = x.numel() / columns;
  const DropoutWords words(seed, rows, columns);
  const at::Tensor wide = widened(x);
  const at::Tensor mask = kept(words.rows, {0, rows}, words.columns, {0, columns}, rate, wide);
  return (wide * (mask.view(x.sizes()) / (1 - rate))).to(x.scalar_type());
}

}  // namespace

at::Tensor widened(const at::Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }

// As keeps() makes them.
at::Tensor random_bits(const std::vector<std::uint32_t>& row_words, Range rows,
                       const std::vector<std::uint32_t>& column_words, Range columns, at::Device device) {
  const auto shifted = [](const at::Tensor& x, int bits) { return x.bitwise_xor(at::bitwise_right_shift(x, bits)); };
  at::Tensor x =
      words_on(row_words, rows, device).unsqueeze(1).bitwise_xor(words_on(column_words, columns, device).unsqueeze(0));
  x = times(shifted(x, 16), 0x7feb352d);
  x = times(shifted(x, 15), 0x846ca68b);
  return at::bitwise_right_shift(shifted(x, 16), 1);
}

at::Tensor kept(const std::vector<std::uint32_t>& row_words, Range rows, const std::vector<std::uint32_t>& column_words,
                Range columns, double rate, const at::Tensor& like) {
  return random_bits(row_words, rows, column_words, columns, like.device())
      .ge(dropout_threshold(rate))
      .to(like.scalar_type());
}

Backend::Elementwise elementwise() { return {reference::gated, gated_backward, rotate_into, dropout}; }
Backend::Routed routed() { return RoutedParts<reference::gated, gated_backward>::all(); }

}  // namespace hone::ops::reference_table
