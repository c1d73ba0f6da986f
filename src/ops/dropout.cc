// Dropout by counter: its meaning, its gradient.
#include "ops/dropout.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/backend.h"
#include "ops/passes.h"

namespace hone::ops {
namespace {

at::Tensor drop(const at::Tensor& x, double rate, const DropoutSeed& seed) {
  const sections::Timed section(sections::Section::elementwise);
  count_bytes({x, x});
  return backend_of(x).elementwise.dropout(x, rate, seed);
}

struct RowsHolder : torch::CustomClassHolder {
  explicit RowsHolder(DropoutSeed::Rows given) : rows(std::move(given)) {}
  DropoutSeed::Rows rows;
};

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, double rate,
                            const DropoutSeed& seed) {
    ctx->saved_data["rate"] = rate;
    ctx->saved_data["seed"] = static_cast<std::int64_t>(seed.seed);
    if (seed.rows) ctx->saved_data["rows"] = c10::IValue::make_capsule(c10::make_intrusive<RowsHolder>(seed.rows));
    return drop(x, rate, seed);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    DropoutSeed seed(static_cast<std::uint64_t>(ctx->saved_data["seed"].toInt()));
    if (const auto rows = ctx->saved_data.find("rows"); rows != ctx->saved_data.end())
      seed.rows = c10::static_intrusive_pointer_cast<RowsHolder>(rows->second.toCapsule())->rows;
    return {drop(grads[0], ctx->saved_data["rate"].toDouble(), seed), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

namespace reference {

at::Tensor seeded_dropout(const at::Tensor& x, double rate, const DropoutSeed& seed) {
  if (rate == 0 || x.numel() == 0) return x;
  const std::int64_t columns = x.size(-1), rows = x.numel() / columns;
  const DropoutWords words(seed, rows, columns);
  at::Tensor factor = at::empty({rows, columns}, at::kDouble);
  auto* to = factor.mutable_data_ptr<double>();
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      *to++ = keeps(words.rows[r], words.columns[c], dropout_threshold(rate)) ? 1 / (1 - rate) : 0;
  const auto wide = at::toOpMathType(x.scalar_type());
  return (x.to(wide) * factor.view(x.sizes()).to(x.options().dtype(wide))).to(x.scalar_type());
}

}  // namespace reference

at::Tensor seeded_dropout(const at::Tensor& x, double rate, const DropoutSeed& seed) {
  HONE_ASSERT(rate >= 0 && rate < 1 && x.dim() > 0);
  if (rate == 0 || x.numel() == 0) return x;
  if (!backend_for({x})) return reference::seeded_dropout(x, rate, seed);
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return drop(x, rate, seed);
  return DropoutFunction::apply(x, rate, seed);
}

}  // namespace hone::ops
