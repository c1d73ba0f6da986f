// Whether a weight that is not in a model, but on its way from file to file, can be computed with.
#pragma once

#include <string>

#include "hone/model.h"

namespace hone::nn {

// A limit that is not trained may lie as far as nothing reaches, as Gemma 4's clips do in a fresh model.
bool is_limit(const Weight& weight);

// Throws Error(not_finite), in the words of check_weights_finite(): `value` is that of the weight `name` in `where`.
void check_finite(const Tensor& value, const std::string& name, const std::string& where);

}  // namespace hone::nn
