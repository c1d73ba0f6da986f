// Stretches of rows: a copy each way, where an index per row would add row by row in backward.
#include "ops/take_rows.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct TakeRowsFunction : torch::autograd::Function<TakeRowsFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_N, const std::vector<std::int64_t>& ends) {
    context->saved_data["ends"] = ends;
    context->saved_data["sizes"] = x_N.sizes().vec();
    std::vector<at::Tensor> parts;
    for (std::size_t i = 0; i < ends.size(); i += 2) parts.push_back(x_N.slice(0, ends[i], ends[i + 1]));
    return at::cat(parts);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const std::vector<std::int64_t> ends = context->saved_data["ends"].toIntVector();
    at::Tensor dx_N = at::zeros(context->saved_data["sizes"].toIntVector(), gradients[0].options());
    std::int64_t at = 0;
    for (std::size_t i = 0; i < ends.size(); i += 2) {
      const std::int64_t count = ends[i + 1] - ends[i];
      dx_N.narrow(0, ends[i], count).add_(gradients[0].narrow(0, at, count));
      at += count;
    }
    return {dx_N, {}};
  }
};

}  // namespace

at::Tensor take_rows(const at::Tensor& x_N, const std::vector<Span>& stretches) {
  std::vector<std::int64_t> ends;
  for (const Span& stretch : stretches) ends.insert(ends.end(), {stretch.begin, stretch.end});
  return TakeRowsFunction::apply(x_N, ends);
}

}  // namespace hone::ops
