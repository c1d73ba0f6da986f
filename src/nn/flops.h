// How much work a model is, by its weights: what `hone plan` foretells and the callback throughput measures by.
#pragma once

#include <cstdint>

#include "hone/model.h"

namespace hone::nn {

struct FlopsOptions {
  double document_length = 1;  // tokens
  double supervised = 1;       // share of the tokens that a language model's head computes
};

// Floating-point operations of one token, on average; a product and a sum are two. Matrix products and attention alone;
// what gradient checkpointing computes again is not in it. Weights whose use is not known (WeightUse::other) are not
// counted.
struct TokenFlops {
  double forward = 0;
  double backward = 0;  // of what is trainable the gradient too; of all, what goes on to the layer before
  double training() const { return forward + backward; }
};
TokenFlops flops_per_token(const Model& model, const FlopsOptions& options);

// How many tokens one sees, itself among them, on average over a document of so many.
double mean_context(double document_length, const AttentionLayer& layer);

}  // namespace hone::nn
