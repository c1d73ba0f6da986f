// Numbers of a loss that are logged as means.
#pragma once

#include <string>

#include "hone/batch.h"

namespace hone::objectives {

// The mean over all of them, over the whole step.
void add_mean(const std::string& name, const Tensor& values, LossTerms& result);
// The same of those that are there: NaN is none.
void add_mean_of_some(const std::string& name, const Tensor& values, LossTerms& result);
// The largest of those that are there (mode max), or the smallest (min), over the whole step.
void add_extreme(const std::string& name, const Tensor& values, LogMode mode, LossTerms& result);
// Over what a mask of 1 and 0 leaves; values are 0 elsewhere.
void add_masked_mean(const std::string& name, const Tensor& values, const Tensor& mask, LossTerms& result);

}  // namespace hone::objectives
