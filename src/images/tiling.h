// Into how many tiles a picture is cut, as InternVL and LFM2-VL choose it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "images/picture.h"

namespace hone::images {

struct Tiling {
  std::int64_t rows = 1, columns = 1;
};

// Of all with at least `least` and at most `most` tiles the one whose shape is nearest to the picture's; of several of
// one shape the largest that the picture fills more than half of, which is seen from the smallest on.
inline Tiling nearest_tiling(const Extent& picture, std::int64_t least, std::int64_t most, std::int64_t side) {
  std::vector<Tiling> all;
  for (std::int64_t columns = 1; columns <= most; ++columns)
    for (std::int64_t rows = 1; rows * columns <= most; ++rows)
      if (rows * columns >= least) all.push_back({rows, columns});
  std::stable_sort(all.begin(), all.end(), [](const Tiling& a, const Tiling& b) {
    return a.rows * a.columns < b.rows * b.columns;
  });
  const double shape = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  Tiling best;
  double nearest = INFINITY;
  for (const Tiling& one : all) {
    const double far = std::abs(shape - static_cast<double>(one.columns) / static_cast<double>(one.rows));
    const double half = 0.5 * static_cast<double>(side) * static_cast<double>(side) *
                        static_cast<double>(one.rows * one.columns);
    if (far < nearest || (far == nearest && static_cast<double>(picture.pixels()) > half)) best = one;
    nearest = std::min(nearest, far);
  }
  return best;
}

}  // namespace hone::images
