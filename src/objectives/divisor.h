// What a loss will be divided by.
#pragma once

#include <string>

#include "hone/model.h"

namespace hone::objectives {

// For ops::CrossEntropyOptions::divisor; null: nobody knows it yet. Good as long as the pass.
inline const Tensor* divisor_of(const Pass& pass, const std::string& per) {
  const auto found = pass.divisors.find(per);
  return found == pass.divisors.end() ? nullptr : &found->second;
}

}  // namespace hone::objectives
