// A pass's documents cut into chunks of so many places each, from each document's begin on.
#pragma once

#include <cstdint>

#include "nn/plan.h"

namespace hone::nn {

// Whether no token of the pass stands behind the first chunk.
bool is_within_chunk(const Plan& plan, std::int64_t chunk);
// What the documents are cut into. REQUIRES: they begin with the pass.
const ops::Documents& in_chunks(const Plan& plan, std::int64_t chunk);

}  // namespace hone::nn
