// Means of a loss.
#include "objectives/means.h"

#include <ATen/ATen.h>

namespace hone::objectives {

void add_mean(const std::string& name, const Tensor& values, LossTerms& result) {
  result.means.push_back({name, values.sum(), at::full({}, values.numel(), values.options())});
}

void add_mean_of_some(const std::string& name, const Tensor& values, LossTerms& result) {
  const Tensor there = values == values;
  const Tensor sum = at::where(there, values, at::zeros_like(values)).sum();
  result.means.push_back({name, sum, there.to(at::kDouble).sum()});
}

void add_masked_mean(const std::string& name, const Tensor& values, const Tensor& mask, LossTerms& result) {
  result.means.push_back({name, values.sum(), mask.sum()});
}

}  // namespace hone::objectives
