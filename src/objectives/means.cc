// Means of a loss.
#include "objectives/means.h"

#include <ATen/ATen.h>

#include <limits>

namespace hone::objectives {

void add_mean(const std::string& name, const Tensor& values, LossTerms& result) {
  result.means.push_back({name, values.sum(), at::full({}, values.numel(), values.options())});
}

void add_mean_of_some(const std::string& name, const Tensor& values, LossTerms& result) {
  const Tensor there = values == values;
  const Tensor sum = at::where(there, values, at::zeros_like(values)).sum();
  result.means.push_back({name, sum, there.to(at::kDouble).sum()});
}

void add_extreme(const std::string& name, const Tensor& values, LogMode mode, LossTerms& result) {
  if (values.numel() == 0) return;
  const bool largest = mode == LogMode::max;
  const double none = largest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  const Tensor there = values == values, weight = there.any().to(at::kDouble);
  const Tensor some = at::where(there, values, at::full_like(values, none)).to(at::kDouble);
  const Tensor extreme = largest ? some.amax() : some.amin();
  result.means.push_back({name, at::where(weight > 0, extreme, at::zeros_like(extreme)), weight, mode});
}

void add_masked_mean(const std::string& name, const Tensor& values, const Tensor& mask, LossTerms& result) {
  result.means.push_back({name, values.sum(), mask.sum()});
}

}  // namespace hone::objectives
