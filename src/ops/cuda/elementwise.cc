// Elementwise primitives by kernels of ours.
#include <bit>

#include "ops/cuda/table.h"
#include "ops/dropout_words.h"
#include "ops/quantized_matrix.h"

namespace hone::ops::cuda_table {
namespace {

at::Tensor gated(const at::Tensor& given_gate, const at::Tensor& given_up, Activation activation) {
  const at::Tensor gate = given_gate.contiguous(), up = given_up.contiguous();
  at::Tensor y = at::empty_like(gate);
  const bool wide = wide_rows(gate.numel(), {gate, up, y});
  Grid grid = over_all(gate.numel() / values_at_once(gate, wide));
  grid.early = true;
  launch({"gated", "gated"}, gate, grid, gate, up, y, gate.numel(), static_cast<int>(activation), wide);
  return y;
}

GatedGradients gated_backward(const at::Tensor& given_dy, const at::Tensor& given_gate, const at::Tensor& given_up,
                              Activation activation, GatedWish wish) {
  const at::Tensor gate = given_gate.contiguous(), up = given_up.contiguous();
  const bool beside = wish.gate.defined() && wish.overwrite;
  const at::Tensor dy = beside ? given_dy : given_dy.contiguous();
  GatedGradients made{beside ? wish.gate : at::empty_like(gate), wish.overwrite ? dy : at::empty_like(up),
                      wish.inner ? at::empty_like(gate) : at::Tensor()};
  const std::int64_t columns = beside ? gate.size(-1) : gate.numel(), apart = beside ? dy.stride(-2) : columns;
  const bool wide = wide_rows(columns, {dy, gate, up, made.gate, made.up, made.inner}) && wide_rows(apart, {dy});
  Grid grid = over_all(gate.numel() / values_at_once(gate, wide));
  grid.early = true;
  launch({"gated", "gated_backward"}, gate, grid, dy, gate, up, made.gate, made.up, made.inner, gate.numel(), columns,
         apart, static_cast<int>(activation), wide);
  return made;
}

void rotate_into(const at::Tensor& y_NHK, const at::Tensor& x_NHK, const RopeTable& table, bool back) {
  const std::int64_t heads = x_NHK.size(1), half = x_NHK.size(2) / 2;
  const at::Tensor cos = table.cos.contiguous(), sin = table.sin.contiguous(), rows = table.rows_N.contiguous();
  const auto fits = [&](std::int64_t apart) { return wide_rows(apart, {x_NHK, y_NHK}); };
  const bool wide = fits(half) && fits(x_NHK.stride(0)) && fits(y_NHK.stride(0));
  const std::int64_t accesses = heads * half / values_at_once(x_NHK, wide);
  const Grid grid{.x = x_NHK.size(0), .threads = threads_for(accesses, kElementThreads), .early = true};
  launch({"rope", "rotate"}, x_NHK, grid, x_NHK, y_NHK, cos, sin, rows, x_NHK.stride(0), y_NHK.stride(0),
         static_cast<int>(heads), static_cast<int>(half), back, wide);
}

at::Tensor dropout(const at::Tensor& given, double rate, const DropoutSeed& seed) {
  const at::Tensor x = given.contiguous();
  at::Tensor y = at::empty_like(x);
  const std::int64_t columns = x.size(-1), rows = x.numel() / columns;
  DropoutWords words(seed, rows, columns);
  words.rows.insert(words.rows.end(), words.columns.begin(), words.columns.end());
  const at::Tensor both = queued_copy(words.rows, at::kInt, x);
  const bool wide = wide_rows(columns, {x, y});
  const Grid grid{.x = rows, .threads = threads_for(columns / values_at_once(x, wide), kElementThreads)};
  launch({"dropout", "dropout"}, x, grid, x, y, both, rows, columns, static_cast<int>(dropout_threshold(rate)),
         1 / (1 - rate), wide);
  return y;
}

void multiply(const at::Tensor& x, const at::Tensor& factor) {
  const at::Tensor by = factor.to(at::toOpMathType(x.scalar_type()));
  const bool wide = wide_rows(x.numel(), {x});
  launch({"gated", "multiply"}, x, over_all(x.numel() / values_at_once(x, wide)), x, by, x.numel(), wide);
}

void dequantize(const Quantized& q, const at::Tensor& to) {
  if (q.as.type == QuantType::int8) {
    const Grid grid{.x = q.shape[0], .threads = threads_for(q.shape[1], kElementThreads)};
    return launch({"quantized", "from_int8"}, to, grid, q.codes, q.scales, q.shape[1], to);
  }
  const std::int64_t count = to.numel();
  const bool wide = wide_rows(count, {to});
  launch({"quantized", "from_four_bits"}, to, over_all(count / values_at_once(to, wide)), q.codes, q.table, q.scales,
         q.scale_codes, q.scale_table, static_cast<double>(q.scale_offset), count,
         std::countr_zero(static_cast<std::uint64_t>(q.block)), to, wide);
}

}  // namespace

Backend::Elementwise elementwise() { return {gated, gated_backward, rotate_into, dropout, multiply, dequantize}; }

}  // namespace hone::ops::cuda_table
