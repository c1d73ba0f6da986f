// Models that no machine holds, or that cannot be.
#pragma once

#include <cstdint>

#include "hone/config.h"

namespace hone::models {

// Refuses them at `key` before anything is made; count: of parameters, in doubles, so that nothing overflows.
void check_parameters(double count, const char* key, Problems& problems);
// The same of experts, those of all layers together.
void check_all_experts(double count, const char* key, Problems& problems);
// That a token goes to no more experts than a layer has.
void check_experts_per_token(std::int64_t per_token, std::int64_t there, Problems& problems);

}  // namespace hone::models
