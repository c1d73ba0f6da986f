// The loss of a model with routed experts as transformers gives it.
#pragma once

#include "models/golden.h"

namespace hone::test {

inline const std::filesystem::path kExperts = "tests/golden/experts";

// Mean loss, and what layers added: each per token.
inline Tensor routed_loss(const CausalLm& model, const Batch& batch, Pass& pass) {
  Tensor loss = mean_loss(model, batch, pass);
  for (const LossTerm& term : pass.aux) loss = loss + term.sum / static_cast<double>(batch.tokens);
  return loss;
}

}  // namespace hone::test
