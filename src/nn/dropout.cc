// Dropout of hidden states.
#include "hone/layers.h"

#include <fmt/format.h>

#include "hone/random.h"
#include "ops/dropout.h"

namespace hone::nn {

Tensor dropout(const Tensor& x, double rate, const Pass& pass, std::string_view place) {
  if (!pass.training || rate <= 0) return x;
  const Random random(pass.seed, fmt::format("dropout/{}", place));
  return ops::seeded_dropout(x, rate, random.bits(static_cast<std::uint64_t>(pass.layer)));
}

}  // namespace hone::nn
