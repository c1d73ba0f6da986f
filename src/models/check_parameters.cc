// Models that no machine holds, or that cannot be.
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

void check_all_experts(double count, const char* key, Problems& problems) {
  problems.require(count <= 1e6, key, fmt::format("{} in all layers together, expected at most 1000000", count));
}

void check_experts_per_token(std::int64_t per_token, std::int64_t there, Problems& problems) {
  problems.require(per_token <= there, "num_experts_per_tok",
                   fmt::format("got {}, expected at most as many as there are experts ({})", per_token, there));
}

}  // namespace hone::models
