// Where the patches of a batch's pictures stand, of towers that read pictures of any size: Qwen's and GLM's.
//
// Letters in tensor names: P patches, K head size.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hone/model.h"
#include "ops/attention.h"

namespace hone::models {

// Patches come as the processor gives them: those of a token one after another.
struct PatchPlaces {
  std::vector<std::int64_t> rows, columns;          // of each patch
  std::vector<std::int64_t> all_rows, all_columns;  // that its picture has
  std::vector<ops::Span> pictures;                  // what sees each other: each frame
};
// merge: rows, and columns, of patches that are one token.
PatchPlaces patch_places(const Pictures& pictures, std::int64_t merge);

// Angles of each patch, [P, K / 2]: half of the pairs turn by its row, half by its column.
Tensor axial_angles(const PatchPlaces& places, std::int64_t head_size, double theta);

}  // namespace hone::models
