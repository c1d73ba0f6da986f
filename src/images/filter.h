// How pixels of a resized picture are made of those near them.
#pragma once

namespace hone::images {

// By Pillow's numbers, as `resample` has them.
enum class Filter { nearest = 0, lanczos = 1, bilinear = 2, bicubic = 3 };

}  // namespace hone::images
