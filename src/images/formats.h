// The decoders of pictures: what each file says of itself, and its pixels as they lie in it.
#pragma once

#include <string_view>

#include "images/picture.h"

namespace hone::images {

struct Header {
  Extent extent;        // as it lies in the file
  int orientation = 1;  // EXIF's, 1 to 8; 1: upright
};

struct Format {
  bool (*is)(std::string_view file);                               // by its first bytes
  Header (*header)(std::string_view file);                         // Error(data): damaged
  Picture (*decode)(std::string_view file, const Extent& extent);  // extent: the header's
};
extern const Format kJpeg, kPng, kWebp;

// What is transparent upon white, by Pillow's fixed-point arithmetic. `from`: red, green, blue and opacity.
void lay_upon_white(const std::uint8_t* from, std::int64_t pixels, std::uint8_t* to);

}  // namespace hone::images
