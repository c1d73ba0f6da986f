// Numbers in a byte.
#include "optim/dynamic_8bit.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace hone::optim {
namespace {

// Seven decades, the upper ones finer: the fraction has the bits that the exponent leaves.
std::array<float, 256> make_values(bool is_signed) {
  std::vector<double> values{0.0, 1.0};
  for (int decade = 0; decade < 7; ++decade) {
    const at::Tensor ends = at::linspace(0.1, 1.0, (1 << (is_signed ? decade : decade + 1)) + 1);
    const at::Tensor means = (ends.slice(0, 0, -1) + ends.slice(0, 1)) / 2.0;
    for (std::int64_t i = 0; i < means.numel(); ++i) {
      const double value = std::pow(10.0, decade - 6) * static_cast<double>(means[i].item<float>());
      values.push_back(value);
      if (is_signed) values.push_back(-value);
    }
  }
  std::sort(values.begin(), values.end());
  std::array<float, 256> made{};
  std::transform(values.begin(), values.end(), made.begin(), [](double value) { return static_cast<float>(value); });
  return made;
}

}  // namespace

const std::array<float, 256>& dynamic_values(bool is_signed) {
  static const std::array<float, 256> kSigned = make_values(true), kUnsigned = make_values(false);
  return is_signed ? kSigned : kUnsigned;
}

}  // namespace hone::optim
