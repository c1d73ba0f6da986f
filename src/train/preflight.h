// What is about to be trained, in the lines printed before step 0, and what looks unusual about it.
#pragma once

#include <string>
#include <vector>

#include "train/inputs.h"

namespace hone::training {

struct Preflight {
  std::vector<std::string> lines, warnings;
};
Preflight describe_inputs(const Recipe& recipe, const Inputs& inputs);

}  // namespace hone::training
