// Dropout of hidden states.
#include "hone/layers.h"

#include <fmt/format.h>

#include "hone/random.h"
#include "nn/context.h"
#include "ops/dropout.h"

namespace hone::nn {

namespace {

std::uint64_t seed_of(const Pass& pass, std::string_view place) {
  return Random(pass.seed, fmt::format("dropout/{}", place)).bits(static_cast<std::uint64_t>(pass.layer));
}

}  // namespace

// Where ranks compute a batch together, a token has the numbers of its place among all.
Tensor dropout(const Tensor& x, double rate, const Pass& pass, std::string_view place) {
  if (!pass.training || rate <= 0) return x;
  const Context* context = pass.batch.context.get();
  return ops::seeded_dropout(x, rate, {seed_of(pass, place), context ? context->numbers() : nullptr});
}

Tensor dropout_embedded(const Tensor& x_BTD, double rate, const Pass& pass, std::string_view place) {
  if (!pass.training || rate <= 0) return x_BTD;
  const Context* context = pass.batch.context.get();
  return ops::seeded_dropout(x_BTD, rate, {seed_of(pass, place), context ? context->places() : nullptr});
}

}  // namespace hone::nn
