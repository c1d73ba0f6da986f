// Labels and weights of tokens, for tests of losses.
#pragma once

#include <ATen/ATen.h>

#include "ops/head_losses.h"

namespace hone::ops::test {

// Each third token has none.
inline at::Tensor labels(std::int64_t tokens, std::int64_t vocab) {
  at::Tensor made = at::arange(tokens, at::kLong).mul(7).remainder(vocab);
  for (std::int64_t i = 0; i < tokens; i += 3) made[i] = kIgnoreIndex;
  return made;
}
inline at::Tensor weights(std::int64_t tokens) { return at::arange(tokens, at::kFloat).remainder(3).add(0.5); }

}  // namespace hone::ops::test
