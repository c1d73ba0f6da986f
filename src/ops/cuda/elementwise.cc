// Gated activations and rotation by kernels of ours.
#include <ATen/ATen.h>

#include "ops/cuda/program.h"
#include "ops/cuda/table.h"
#include "ops/reference/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr std::int64_t kThreads = 256, kBlocks = 4096;

std::int64_t blocks_of(std::int64_t count) { return std::min((count + kThreads - 1) / kThreads, kBlocks); }

at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, Activation activation) {
  if (!has_kernel(gate.scalar_type())) return reference_table::elementwise().gated(gate, up, activation);
  const at::Tensor g = gate.contiguous(), u = up.contiguous(), y = at::empty_like(g);
  int kind = static_cast<int>(activation);
  std::int64_t count = g.numel();
  void *from = g.data_ptr(), *with = u.data_ptr(), *to = y.data_ptr();
  cuda::launch("gated", kernel_for("gated", g.scalar_type()), blocks_of(count), kThreads,
               {&from, &with, &kind, &count, &to});
  return y;
}

GatedGradients gated_backward(const at::Tensor& given, const at::Tensor& gate, const at::Tensor& up,
                              Activation activation, bool overwrite) {
  if (!has_kernel(gate.scalar_type()))
    return reference_table::elementwise().gated_backward(given, gate, up, activation, overwrite);
  const at::Tensor dy = given.contiguous(), g = gate.contiguous(), u = up.contiguous();
  const GatedGradients made{at::empty_like(g), overwrite ? dy : at::empty_like(u)};
  int kind = static_cast<int>(activation);
  std::int64_t count = g.numel();
  void *gradient = dy.data_ptr(), *from = g.data_ptr(), *with = u.data_ptr(), *dgate = made.gate.data_ptr(),
       *dup = made.up.data_ptr();
  cuda::launch("gated", kernel_for("gated_backward", g.scalar_type()), blocks_of(count), kThreads,
               {&gradient, &from, &with, &kind, &count, &dgate, &dup});
  return made;
}

void rotate_into(const at::Tensor& y_NHK, const at::Tensor& x_NHK, const RopeTable& table, bool back) {
  if (!has_kernel(x_NHK.scalar_type())) return reference_table::elementwise().rotate_into(y_NHK, x_NHK, table, back);
  std::int64_t tokens = x_NHK.size(0), heads = x_NHK.size(1), half = x_NHK.size(2) / 2;
  std::int64_t x_stride = x_NHK.stride(0), y_stride = y_NHK.stride(0);
  int sign = back ? -1 : 1;
  const at::Tensor cosines = table.cos.contiguous(), sines = table.sin.contiguous();
  void *from = x_NHK.data_ptr(), *to = y_NHK.data_ptr(), *c = cosines.data_ptr(), *s = sines.data_ptr(),
       *rows = table.rows_N.data_ptr();
  cuda::launch("rope", kernel_for("rope", x_NHK.scalar_type()), blocks_of(tokens * heads * half), kThreads,
               {&from, &x_stride, &to, &y_stride, &c, &s, &rows, &tokens, &heads, &half, &sign});
}

}  // namespace

Backend::Elementwise elementwise() {
  return {gated, gated_backward, rotate_into, reference_table::elementwise().dropout};
}

}  // namespace hone::ops::cuda_table
