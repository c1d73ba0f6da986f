// How factors of bf16 products by AMX are packed.
//
// A step is 32 of depth, a panel 32 columns. A panel's step is two tiles of 1 KB: 16 pairs of depth by 16 columns. So
// is a step of packed rows of A, 32 at a time: 16 rows by 32 of depth. What is missing at an edge is zero.
#pragma once

#include <cstdint>

namespace hone::ops::cpu {

inline constexpr std::int64_t kTileSide = 32;         // rows, columns and depth that one step covers
inline constexpr std::int64_t kTileStepBytes = 2048;  // of a panel, or of packed rows
constexpr std::int64_t tile_steps(std::int64_t size) { return (size + kTileSide - 1) / kTileSide; }

}  // namespace hone::ops::cpu
