// Which slice a rank has, and how tokens come to it.
#include "nn/slices.h"

#include <ATen/ATen.h>

#include <utility>

#include "hone/error.h"

namespace hone::nn {

const Context* sharing(const Weight& weight, const Pass& pass) {
  if (weight.layout().whole()) return nullptr;
  if (!pass.batch.context || !pass.batch.context->shares_weights())
    throw Error(ErrorKind::config, "parallel.tensor: a pass of a whole batch, of whose weights no rank has all")
        .hint("leave parallel.tensor out where a program of yours makes passes of its own");
  return pass.batch.context.get();
}

Tensor to_all(const Tensor& x, const Context& ranks) {
  return x.dim() < 3 ? ranks.gather(x) : ranks.gather(x.squeeze(0)).unsqueeze(0);
}

Tensor to_own(const Tensor& y, const Context& ranks) {
  return y.dim() < 3 ? ranks.sum_to_tokens(y) : ranks.sum_to_tokens(y.squeeze(0)).unsqueeze(0);
}

Tensor heads_of(const Tensor& x_1NW, const Weight& weight, std::int64_t heads, std::int64_t head_size,
                const Pass& pass) {
  const Context* ranks = sharing(weight, pass);
  if (!ranks || heads % ranks->ranks() == 0) return x_1NW.view({-1, x_1NW.size(-1) / head_size, head_size});
  const Tensor all_MHK = ranks->gather_columns(x_1NW.squeeze(0)).view({-1, heads, head_size});
  return ranks->own_heads(all_MHK, 1).contiguous();
}

void cut_weights(Module& module, int rank, int ranks) {
  module.each_weight([&](const std::string&, Weight& weight) {
    const auto [dimension, pieces] = weight.tensor_cut();
    if (dimension < 0) return;
    Layout layout = weight.layout();
    HONE_ASSERT(layout.whole());
    const auto d = static_cast<std::size_t>(dimension);
    const std::int64_t piece = layout.shape[d] / pieces, begin = pieces * rank / ranks * piece;
    layout.offset[d] = begin;
    layout.shape[d] = pieces * (rank + 1) / ranks * piece - begin;
    layout.axes[d] = "tensor";
    weight.set_layout(std::move(layout));
  });
}

}  // namespace hone::nn
