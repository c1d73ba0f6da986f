// A short convolution in plain ATen: one pass over all tokens for each tap, with zeros where that token is of another
// document.
#include "ops/short_conv.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "ops/reference/table.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::ops::reference_table {
namespace {

// Of each token the place in its document; -1: it is in none. The same object for all layers of a pass.
struct TokenPlaces {
  at::Tensor place_N1;
};
const at::Tensor& places_of(const Documents& documents, const at::Tensor& x_NC) {
  return documents
      .kept([&] {
        std::vector<std::int64_t> places(x_NC.size(0), -1);
        for (const Span& span : documents.spans())
          for (std::int64_t t = span.begin; t < span.end; ++t) places[t] = t - span.begin;
        return TokenPlaces{devices::sent(host::tensor_of(places, {x_NC.size(0), 1}), x_NC.device())};
      })
      .place_N1;
}

// What lies `back` tokens before each, of its document; 0 elsewhere.
at::Tensor from_before(const at::Tensor& x_NC, std::int64_t back, const at::Tensor& place_N1) {
  const std::int64_t tokens = x_NC.size(0), moved = std::min(back, tokens);
  return at::constant_pad_nd(x_NC.narrow(0, 0, tokens - moved), {0, 0, moved, 0}).masked_fill(place_N1 < back, 0);
}
// The opposite: what those get that lie so far before.
at::Tensor to_before(const at::Tensor& d_NC, std::int64_t back, const at::Tensor& place_N1) {
  const std::int64_t tokens = d_NC.size(0), moved = std::min(back, tokens);
  return at::constant_pad_nd(d_NC.masked_fill(place_N1 < back, 0).narrow(0, moved, tokens - moved), {0, 0, 0, moved});
}

at::Tensor tap(const at::Tensor& weight_CT, std::int64_t back) {
  return widened(weight_CT.select(1, weight_CT.size(1) - 1 - back));
}

// Of tokens outside all documents: 0, though there may be a bias.
at::Tensor sums_of(const at::Tensor& x_NC, const ShortConvWeights& weights, const at::Tensor& place_N1) {
  const at::Tensor x = widened(x_NC), &weight_CT = weights.weight_CT;
  at::Tensor sum = at::zeros_like(x);
  if (weights.bias_C.defined()) sum.add_(widened(weights.bias_C)).masked_fill_(place_N1 < 0, 0);
  for (std::int64_t back = weight_CT.size(1) - 1; back >= 0; --back)
    sum.addcmul_(from_before(x, back, place_N1), tap(weight_CT, back));
  return sum;
}

at::Tensor convolved(const at::Tensor& x_NC, const ShortConvWeights& weights, const Documents& documents) {
  const at::Tensor sum = sums_of(x_NC, weights, places_of(documents, x_NC));
  return (weights.silu ? at::silu(sum) : sum).to(x_NC.scalar_type());
}

// Of the sums.
at::Tensor sum_gradient(const at::Tensor& dy_NC, const at::Tensor& x_NC, const ShortConvWeights& weights,
                        const at::Tensor& place_N1) {
  const at::Tensor dy = widened(dy_NC);
  if (!weights.silu) return dy;
  const at::Tensor sum = sums_of(x_NC, weights, place_N1), open = sum.sigmoid();
  return dy * open * (1 + sum * (1 - open));
}

ShortConvGradients convolved_backward(const at::Tensor& dy_NC, const at::Tensor& x_NC, const ShortConvWeights& weights,
                                      const Documents& documents) {
  const at::Tensor &place_N1 = places_of(documents, x_NC), &weight_CT = weights.weight_CT, x = widened(x_NC);
  const at::Tensor d = sum_gradient(dy_NC, x_NC, weights, place_N1);
  at::Tensor dx = at::zeros_like(d);
  std::vector<at::Tensor> of_taps;
  for (std::int64_t back = weight_CT.size(1) - 1; back >= 0; --back) {
    dx += to_before(d, back, place_N1) * tap(weight_CT, back);
    of_taps.push_back((d * from_before(x, back, place_N1)).sum(0));
  }
  const at::Tensor of_bias =
      weights.bias_C.defined() ? d.masked_fill(place_N1 < 0, 0).sum(0, /*keepdim=*/true) : at::Tensor();
  return {dx.to(x_NC.scalar_type()), at::stack(of_taps, 1).view({1, -1}), of_bias};
}

}  // namespace

Backend::ShortConv short_conv() { return {convolved, convolved_backward}; }

}  // namespace hone::ops::reference_table
