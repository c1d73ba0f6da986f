// gpt-oss's gate: by a table's kernel, else in ATen's passes, a part of the rows at a time: what is computed in fp32 on
// the way stays small.
#include "ops/clamped_gate.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "base/sections.h"
#include "ops/backend.h"
#include "ops/row_products.h"

namespace hone::ops {
namespace {

const Backend::Elementwise& kernels_of(const at::Tensor& x) { return backend_of(x).elementwise; }

at::Tensor half(const at::Tensor& both_SJ, std::int64_t which) {
  return both_SJ.slice(1, which, both_SJ.size(1), 2).to(at::toOpMathType(both_SJ.scalar_type()));
}

}  // namespace

namespace reference {

at::Tensor clamped_gate(const at::Tensor& both_SJ, const ClampedGate& gate) {
  const at::Tensor g = half(both_SJ, 0).clamp_max(gate.limit), u = half(both_SJ, 1).clamp(-gate.limit, gate.limit);
  return (g * (g * gate.alpha).sigmoid() * (u + 1)).to(both_SJ.scalar_type());
}

}  // namespace reference

at::Tensor clamped_gate(const at::Tensor& both_SJ, const ClampedGate& gate) {
  const sections::Timed section(sections::Section::elementwise);
  if (const auto kernel = kernels_of(both_SJ).clamped_gate) return kernel(both_SJ.contiguous(), gate);
  const at::Tensor y_SI = at::empty({both_SJ.size(0), both_SJ.size(1) / 2}, both_SJ.options());
  each_part_of_rows(both_SJ.size(0), y_SI.size(1), [&](std::int64_t first, std::int64_t rows) {
    y_SI.narrow(0, first, rows).copy_(reference::clamped_gate(both_SJ.narrow(0, first, rows), gate));
  });
  return y_SI;
}

at::Tensor clamped_gate_backward(const at::Tensor& d_SI, const at::Tensor& both_SJ, const ClampedGate& gate) {
  const sections::Timed section(sections::Section::elementwise);
  if (const auto kernel = kernels_of(both_SJ).clamped_gate_backward)
    return kernel(d_SI.contiguous(), both_SJ.contiguous(), gate);
  const at::Tensor made_SJ = at::empty_like(both_SJ, at::MemoryFormat::Contiguous);
  each_part_of_rows(both_SJ.size(0), d_SI.size(1), [&](std::int64_t first, std::int64_t rows) {
    const at::Tensor both = both_SJ.narrow(0, first, rows), to = made_SJ.narrow(0, first, rows);
    const at::Tensor g_given = half(both, 0), u_given = half(both, 1);
    const at::Tensor g = g_given.clamp_max(gate.limit), u = u_given.clamp(-gate.limit, gate.limit);
    const at::Tensor d = d_SI.narrow(0, first, rows).to(g.scalar_type()), s = (g * gate.alpha).sigmoid_();
    const at::Tensor du = (d * g).mul_(s).mul_(u_given.eq(u));
    const at::Tensor slope = (1 - s).mul_(g).mul_(gate.alpha).add_(1).mul_(s);
    to.slice(1, 0, to.size(1), 2).copy_((u + 1).mul_(d).mul_(slope).mul_(g_given.eq(g)));
    to.slice(1, 1, to.size(1), 2).copy_(du);
  });
  return made_SJ;
}

}  // namespace hone::ops
