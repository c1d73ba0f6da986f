// Models that no machine holds.
#pragma once

#include "hone/config.h"

namespace hone::models {

// Refuses them at `key` before anything is made; count: of parameters, in doubles, so that nothing overflows.
void check_parameters(double count, const char* key, Problems& problems);

}  // namespace hone::models
