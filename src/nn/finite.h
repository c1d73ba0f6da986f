// What to say when a model's numbers are not finite.
#pragma once

#include <string>

#include "hone/model.h"

namespace hone::nn {

// Name of the first weight that holds an infinite value or one that is no number; "" = all are finite. Reads them all.
std::string first_not_finite(const Model& model);

// `what` (logits, a loss) came out infinite or as no number: the error that names the weight at fault, or says that the
// weights are in order and it happened while computing; neither where weights are shared out among ranks.
Error not_finite(const Model& model, const std::string& what);

// For a model that was just loaded from `where`: throws Error(not_finite) with the weight's name.
void check_weights_finite(const Model& model, const std::string& where);

}  // namespace hone::nn
