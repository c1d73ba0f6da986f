// Rows and columns of patches.
#include "models/patch_places.h"

#include <ATen/ATen.h>

#include "tensor/host.h"

namespace hone::models {
namespace {

void add_places(const PatchGrid& grid, std::int64_t merge, PatchPlaces& places) {
  for (std::int64_t frame = 0; frame < grid.frames; ++frame)
    for (std::int64_t row = 0; row < grid.rows; row += merge)
      for (std::int64_t column = 0; column < grid.columns; column += merge)
        for (std::int64_t i = 0; i < merge * merge; ++i) {
          places.rows.push_back(row + i / merge), places.columns.push_back(column + i % merge);
          places.all_rows.push_back(grid.rows), places.all_columns.push_back(grid.columns);
        }
}

Tensor on_axis(const std::vector<std::int64_t>& values) {
  return host::tensor_of(values, {std::ssize(values)}).to(at::kFloat);
}

}  // namespace

PatchPlaces patch_places(const Pictures& pictures, std::int64_t merge) {
  PatchPlaces places;
  for (const PictureSpan& picture : pictures.spans) {
    const std::int64_t begin = std::ssize(places.rows), frame = picture.grid.rows * picture.grid.columns;
    add_places(picture.grid, merge, places);
    for (std::int64_t i = 0; i < picture.grid.frames; ++i)
      places.pictures.push_back({begin + i * frame, begin + (i + 1) * frame});
  }
  return places;
}

Tensor axial_angles(const PatchPlaces& places, std::int64_t head_size, double theta) {
  const std::int64_t half = head_size / 2;
  const Tensor inverse = at::pow(theta, at::arange(0, half, 2, at::kFloat) / half).reciprocal();
  return at::cat({at::outer(on_axis(places.rows), inverse), at::outer(on_axis(places.columns), inverse)}, 1);
}

}  // namespace hone::models
