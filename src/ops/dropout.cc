// Dropout by counter: its meaning, the choice of kernel.
#include "ops/dropout.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/cpu/dropout.h"
#include "ops/dropout_words.h"
#include "ops/parallel.h"

namespace hone::ops {
namespace {

constexpr std::int64_t kRoomBehind = 16;  // words that kernels may read behind the last column's

// The words of x's rows and columns.
DropoutWords words_of(const at::Tensor& x, std::uint64_t seed) {
  const std::int64_t columns = x.size(-1);
  return {seed, x.numel() / columns, columns + kRoomBehind};
}

at::Tensor drop(const at::Tensor& given, double rate, std::uint64_t seed) {
  const sections::Timed section(sections::Section::elementwise);
  const at::Tensor x = given.contiguous();
  at::Tensor y = at::empty_like(x);
  const DropoutWords words = words_of(x, seed);
  const std::int64_t columns = x.size(-1);
  cpu::with_type(x.scalar_type(), [&]<class T>(T) {
    const auto kernels = cpu::dropout_kernels<T>();
    at::parallel_for(0, x.numel() / columns, grain(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        kernels.row(rate, words.rows[r], words.columns.data(), x.const_data_ptr<T>() + r * columns, columns,
                    y.mutable_data_ptr<T>() + r * columns);
    });
  });
  return y;
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, double rate,
                            std::int64_t seed) {
    ctx->saved_data["rate"] = rate;
    ctx->saved_data["seed"] = seed;
    return drop(x, rate, static_cast<std::uint64_t>(seed));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto seed = static_cast<std::uint64_t>(ctx->saved_data["seed"].toInt());
    return {drop(grads[0], ctx->saved_data["rate"].toDouble(), seed), at::Tensor(), at::Tensor()};
  }
};

}  // namespace


namespace reference {

at::Tensor seeded_dropout(const at::Tensor& x, double rate, std::uint64_t seed) {
  if (rate == 0 || x.numel() == 0) return x;
  const DropoutWords words = words_of(x, seed);
  const std::int64_t columns = x.size(-1), rows = x.numel() / columns;
  at::Tensor factor = at::empty({rows, columns}, at::kDouble);
  auto* to = factor.mutable_data_ptr<double>();
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      *to++ = keeps(words.rows[r], words.columns[c], dropout_threshold(rate)) ? 1 / (1 - rate) : 0;
  const auto wide = at::toOpMathType(x.scalar_type());
  return (x.to(wide) * factor.view(x.sizes()).to(x.options().dtype(wide))).to(x.scalar_type());
}

}  // namespace reference

at::Tensor seeded_dropout(const at::Tensor& x, double rate, std::uint64_t seed) {
  HONE_ASSERT(rate >= 0 && rate < 1 && x.dim() > 0);
  if (rate == 0 || x.numel() == 0) return x;
  if (!kernels_take({x})) return reference::seeded_dropout(x, rate, seed);
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return drop(x, rate, seed);
  return DropoutFunction::apply(x, rate, static_cast<std::int64_t>(seed));
}

}  // namespace hone::ops
