// Noise on embedded tokens.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "hone/layers.h"
#include "hone/random.h"
#include "ops/noise.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::nn {

Tensor embedding_noise(const Tensor& x_BTD, const Pass& pass) {
  if (!pass.training || pass.embedding_noise <= 0) return x_BTD;
  const std::int64_t rows = x_BTD.size(0), length = x_BTD.size(1), width = x_BTD.size(2);
  std::vector<float> most(static_cast<std::size_t>(rows * length), 0);  // 0: padding
  for (const Doc& doc : pass.batch.docs) {
    const double of_doc = pass.embedding_noise / std::sqrt(static_cast<double>((doc.end - doc.begin) * width));
    const auto first = most.begin() + doc.row * length + doc.begin;
    std::fill(first, first + (doc.end - doc.begin), static_cast<float>(of_doc));
  }
  const std::uint64_t seed = Random(pass.seed, "embedding_noise").bits(0);
  const Tensor noise_ND = ops::even_noise(rows * length, width, seed, x_BTD.device());
  const Tensor most_N1 = devices::sent(host::tensor_of(most, {rows * length, 1}), x_BTD.device());
  return x_BTD + noise_ND.mul_(most_N1).view(x_BTD.sizes()).to(x_BTD.scalar_type());
}

}  // namespace hone::nn
