// Scores of texts that are not finished yet: what a model with a head of one label says of each of its beginnings.
//
// Letters: N tokens.
#pragma once

#include <string>

#include "hone/model.h"

namespace hone::nn {

// The model of that name that is trained beside another one (Model::beside); null: there is none.
const Model* model_beside(const Model& model, const std::string& name);

// Of each token of a batch the score that its document would have if it ended there, [N]; a graph. The pass is the one
// that gave the output, and keeps what is needed for it. REQUIRES: require_prefix_scores().
Tensor prefix_scores(const Model& model, const Output& output, const Batch& batch, Pass& pass);
// Error(config): its head is not one of a single label, or tokens see later ones.
void require_prefix_scores(const Model& model, const std::string& what);

}  // namespace hone::nn
