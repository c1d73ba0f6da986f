// xIELU in ATen's passes, a part of the rows at a time: what is computed in fp32 on the way stays small, and of what is
// as large as x the backward pass keeps x alone.
#include "ops/xielu.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/sections.h"
#include "ops/row_products.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor wide_of(const at::Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }

// The factors of both sides, and what is fixed; all in fp32 at least.
struct Bend {
  at::Tensor above_1, below_1, beta, eps;

  at::Tensor of(const at::Tensor& x) const {
    const at::Tensor low = below_1 * (at::minimum(x, eps).expm1() - x);
    return at::where(x > 0, above_1 * x.square(), low) + beta * x;
  }
  at::Tensor slope(const at::Tensor& x) const {
    const at::Tensor low = below_1 * (at::where(x < eps, x.exp(), 0) - 1);
    return at::where(x > 0, 2 * above_1 * x, low) + beta;
  }
};

Bend bend_of(const Xielu& form, at::ScalarType wide) {
  const at::Tensor beta = form.beta.to(wide);
  return {at::softplus(form.positive_1.to(wide)), at::softplus(form.negative_1.to(wide)) + beta, beta,
          form.eps.to(wide)};
}

template <class Run>
void each_part(const at::Tensor& x, Run&& run) {
  const std::int64_t rows = x.size(0);
  each_part_of_rows(rows, rows > 0 ? x.numel() / rows : 0, run);
}

class XieluFunction : public torch::autograd::Function<XieluFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& above_1,
                            const at::Tensor& below_1, const at::Tensor& beta, const at::Tensor& eps) {
    const sections::Timed section(sections::Section::elementwise);
    ctx->save_for_backward({x, above_1, below_1, beta, eps});
    const Bend bend{above_1, below_1, beta, eps};
    const at::Tensor y = at::empty_like(x);
    each_part(x, [&](std::int64_t first, std::int64_t rows) {
      y.narrow(0, first, rows).copy_(bend.of(wide_of(x.narrow(0, first, rows))));
    });
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const sections::Timed section(sections::Section::elementwise);
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const Bend bend{saved[1], saved[2], saved[3], saved[4]};
    const at::Tensor dx = at::empty_like(x), d_above_1 = at::zeros_like(saved[1]), d_below_1 = at::zeros_like(saved[2]);
    each_part(x, [&](std::int64_t first, std::int64_t rows) {
      const at::Tensor part = wide_of(x.narrow(0, first, rows)), dy = wide_of(grads[0].narrow(0, first, rows));
      const at::Tensor is_above = part > 0;
      dx.narrow(0, first, rows).copy_(bend.slope(part) * dy);
      d_above_1.add_(at::where(is_above, dy * part.square(), 0).sum());
      d_below_1.add_(at::where(is_above, 0, dy * (at::minimum(part, bend.eps).expm1() - part)).sum());
    });
    return {dx, d_above_1, d_below_1, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

namespace reference {

at::Tensor xielu(const at::Tensor& x, const Xielu& form) {
  const at::Tensor wide = wide_of(x);
  return bend_of(form, wide.scalar_type()).of(wide).to(x.scalar_type());
}

}  // namespace reference

// The learnt numbers' own part is autograd's.
at::Tensor xielu(const at::Tensor& x, const Xielu& form) {
  const Bend bend = bend_of(form, at::toOpMathType(x.scalar_type()));
  return XieluFunction::apply(x, bend.above_1, bend.below_1, bend.beta, bend.eps);
}

}  // namespace hone::ops
