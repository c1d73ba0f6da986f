// Embedding look-up: its meaning, and a gradient that is summed token by token in a fixed order.
#include "ops/embedding.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hone/error.h"
#include "ops/backend.h"
#include "ops/kept_sum.h"

namespace hone::ops {

// Where ids lie on a device, its own look-up refuses what is outside: nobody waits for it here.
void check_ids(const at::Tensor& ids, std::int64_t rows) {
  if (ids.numel() == 0 || !ids.is_cpu()) return;
  const auto [low, high] = at::aminmax(ids);
  for (const std::int64_t id : {low.item<std::int64_t>(), high.item<std::int64_t>()})
    if (id < 0 || id >= rows)
      throw Error(ErrorKind::data,
                  fmt::format("token id {}: outside the model's vocabulary; expected 0 to {}", id, rows - 1))
          .hint("was the text tokenised with this model's tokenizer? of a table of positions: is a row longer?");
}

namespace {

// The table's gradient, unless its sum takes it.
at::Tensor table_gradient(const at::Tensor& dy, const at::Tensor& ids, std::int64_t rows, std::int64_t skip,
                          GradientSum* sum) {
  if (sum && sum->takes()) {
    if (!sum->full()) sum->sum.zero_();
    sum->fill();
    backend_of(dy).sums.add_to_table(dy, ids, skip, sum->sum);
    return {};
  }
  const at::Tensor made = at::zeros({rows, dy.size(-1)}, dy.options().dtype(at::toOpMathType(dy.scalar_type())));
  backend_of(dy).sums.add_to_table(dy, ids, skip, made);
  return made.to(dy.scalar_type());
}

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& table, const at::Tensor& ids,
                            std::int64_t no_gradient_id, std::int64_t sum) {
    ctx->save_for_backward({ids});
    ctx->saved_data["rows"] = table.size(0);
    ctx->saved_data["skip"] = no_gradient_id;
    ctx->saved_data["sum"] = sum;
    return at::embedding(table, ids);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor ids = ctx->get_saved_variables()[0];
    auto* sum = to_sum(ctx->saved_data["sum"].toInt());
    return {table_gradient(grads[0], ids, ctx->saved_data["rows"].toInt(), ctx->saved_data["skip"].toInt(), sum),
            at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

namespace reference {

at::Tensor embedding(const at::Tensor& table_VD, const at::Tensor& ids, std::int64_t no_gradient_id) {
  check_ids(ids, table_VD.size(0));
  const at::Tensor rows = at::embedding(table_VD, ids);
  if (no_gradient_id < 0) return rows;
  return at::where((ids == no_gradient_id).unsqueeze(-1), rows.detach(), rows);
}

}  // namespace reference

at::Tensor embedding(const at::Tensor& table_VD, const at::Tensor& ids, std::int64_t no_gradient_id, GradientSum* sum) {
  if (!backend_for({table_VD}) || ids.numel() == 0 || ids.device() != table_VD.device())
    return reference::embedding(table_VD, ids, no_gradient_id);
  check_ids(ids, table_VD.size(0));
  if (!at::GradMode::is_enabled()) return at::embedding(table_VD, ids);
  return EmbeddingFunction::apply(table_VD, ids, no_gradient_id, to_number(sum));
}

}  // namespace hone::ops
