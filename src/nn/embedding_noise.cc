// Noise on embedded tokens.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "hone/layers.h"
#include "hone/random.h"
#include "nn/context.h"
#include "ops/noise.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::nn {

namespace {

using OfDoc = std::function<float(const Doc&)>;

std::vector<float> of_rows(const Tensor& x_BTD, const std::vector<Doc>& docs, const OfDoc& of_doc) {
  const std::int64_t length = x_BTD.size(1);
  std::vector<float> all(static_cast<std::size_t>(x_BTD.size(0) * length), 0);  // 0: padding
  for (const Doc& doc : docs) {
    const auto first = all.begin() + doc.row * length + doc.begin;
    std::fill(first, first + (doc.end - doc.begin), of_doc(doc));
  }
  return all;
}

// Of the documents that the tokens are of, whole.
std::vector<float> of_own_tokens(const Context& context, const OfDoc& of_doc) {
  std::vector<float> all;
  for (const Doc& doc : context.docs())
    all.insert(all.end(), static_cast<std::size_t>(doc.end - doc.begin), of_doc(doc));
  const auto first = all.begin() + context.begin();
  return {first, first + context.tokens()};
}

}  // namespace

Tensor embedding_noise(const Tensor& x_BTD, const Pass& pass) {
  if (!pass.training || pass.embedding_noise <= 0) return x_BTD;
  const std::int64_t rows = x_BTD.size(0), length = x_BTD.size(1), width = x_BTD.size(2);
  const Context* context = pass.batch.context.get();
  const auto noise_of = [&](const Doc& doc) {
    const auto values = static_cast<double>((doc.end - doc.begin) * width);
    return static_cast<float>(pass.embedding_noise / std::sqrt(values));
  };
  const std::vector<float> most =
      context ? of_own_tokens(*context, noise_of) : of_rows(x_BTD, pass.batch.docs, noise_of);
  const std::uint64_t seed = Random(pass.seed, "embedding_noise").bits(0);
  const Tensor noise_ND = ops::even_noise(rows * length, width, {seed, context ? context->places() : nullptr},
                                          x_BTD.device());
  const Tensor most_N1 = devices::sent(host::tensor_of(most, {rows * length, 1}), x_BTD.device());
  return x_BTD + noise_ND.mul_(most_N1).view(x_BTD.sizes()).to(x_BTD.scalar_type());
}

}  // namespace hone::nn
