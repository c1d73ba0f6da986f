// Models that no machine holds.
#include "models/check_parameters.h"

#include <fmt/format.h>

namespace hone::models {

void check_parameters(double count, const char* key, Problems& problems) {
  if (count <= 1e13) return;
  problems.add(
      key, fmt::format(
               "the sizes describe a model of {:.3g} parameters, {:.3g} GB in fp32; expected at most 1e13 parameters",
               count, count * 4 / 1e9));
}

}  // namespace hone::models
