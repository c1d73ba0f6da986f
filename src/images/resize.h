// Resizing to the bytes that torchvision gives on a CPU for pictures of eight bits, with its smoothing of what shrinks.
#pragma once

#include "images/filter.h"
#include "images/picture.h"

namespace hone::images {

// Part of a picture.
struct Window {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

// What resizing the picture to `full` gives within the window; only that is computed. REQUIRES: the window lies in it.
Picture resize(const Picture& picture, const Extent& full, Filter filter, const Window& window);
Picture resize(const Picture& picture, const Extent& full, Filter filter);

// Pixels on a side of what a picture may be resized to, whole, and of a window of it kMaxPixels.
inline constexpr std::int64_t kMaxResizedSide = 1'000'000;
// Error(data): `to` is larger.
void check_resized(const Extent& picture, const Extent& to, const Window& window);

}  // namespace hone::images
