// Files that are trained on and measured on.
#pragma once

#include <string>
#include <vector>

#include "hone/data_section.h"

namespace hone::training {

// A warning for each set of data.eval and data.test with a file that data.train has, too, under whatever name. What
// cannot be looked for says so where it is read.
std::vector<std::string> sets_trained_on(const DataSection& data);

}  // namespace hone::training
