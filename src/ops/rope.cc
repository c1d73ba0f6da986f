// Rotary position embedding: its meaning, its gradient (the opposite rotation), the choice of kernel.
#include "ops/rope.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/cpu/rope.h"
#include "ops/parallel.h"

namespace hone::ops {
namespace reference {

at::Tensor rope(const at::Tensor& x_NHK, const RopeTable& table) {
  const auto wide = at::toOpMathType(x_NHK.scalar_type());
  const auto per_token = [&](const at::Tensor& values) {
    return values.index_select(0, table.rows_N).to(wide).unsqueeze(1);
  };
  const at::Tensor cos = per_token(table.cos), sin = per_token(table.sin);
  const auto halves = x_NHK.to(wide).chunk(2, -1);
  return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1).to(x_NHK.scalar_type());
}

}  // namespace reference

namespace {

at::Tensor rotate(const at::Tensor& x_NHK, const RopeTable& table, bool back) {
  const at::Tensor x = x_NHK.contiguous();
  const std::int64_t heads = x.size(1), half = x.size(2) / 2;
  at::Tensor y = at::empty_like(x);
  cpu::with_type(x.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const auto kernels = cpu::rope_kernels<T>();
    at::parallel_for(0, x.size(0), grain(heads * half * 2), [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * heads * half * 2;
      kernels.rotate(x.const_data_ptr<T>() + at, table.cos.const_data_ptr<W>(), table.sin.const_data_ptr<W>(),
                     table.rows_N.const_data_ptr<std::int64_t>() + begin, end - begin, heads, half, back,
                     y.mutable_data_ptr<T>() + at);
    });
  });
  return y;
}

class RopeFunction : public torch::autograd::Function<RopeFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin, const at::Tensor& rows) {
    ctx->save_for_backward({cos, sin, rows});
    return rotate(x, {cos, sin, rows}, /*back=*/false);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {rotate(grads[0], {saved[0], saved[1], saved[2]}, /*back=*/true), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rope(const at::Tensor& x_NHK, const RopeTable& table) {
  const bool fits = x_NHK.numel() > 0 && kernels_take({x_NHK}) && kernels_take({table.cos, table.sin}) &&
                    table.cos.scalar_type() == at::toOpMathType(x_NHK.scalar_type());
  if (!fits) return reference::rope(x_NHK, table);
  if (!at::GradMode::is_enabled()) return rotate(x_NHK, table, /*back=*/false);
  return RopeFunction::apply(x_NHK, table.cos, table.sin, table.rows_N);
}

}  // namespace hone::ops
