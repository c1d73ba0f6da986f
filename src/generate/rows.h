// Prompts as a batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hone/batch.h"

namespace hone::generate {

// Rows of ids, padded on the right; `docs` says where the real tokens are.
Batch rows_of_ids(const std::vector<std::span<const std::int32_t>>& rows);

}  // namespace hone::generate
