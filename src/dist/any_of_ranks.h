// Truths over ranks.
#pragma once

#include <string>
#include <vector>

#include "hone/world.h"

namespace hone::dist {

// Each that is true on any rank; as many on all of them, in the same order.
inline std::vector<bool> any_of_ranks(const World& world, const std::vector<bool>& own) {
  std::string text;
  for (const bool one : own) text += one ? '1' : '0';
  std::vector<bool> any(own.size());
  for (const std::string& one : world.gather(text))
    for (std::size_t i = 0; i < any.size(); ++i) any[i] = any[i] || one.at(i) == '1';
  return any;
}

}  // namespace hone::dist
