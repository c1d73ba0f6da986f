// Which way up a picture is, as its EXIF or XMP data say.
#pragma once

#include <optional>
#include <string_view>

#include "images/picture.h"

namespace hone::images {

// Of a block of EXIF data (a TIFF), with or without "Exif\0\0" before it. 1 to 8; nothing: it does not say, or is
// damaged.
std::optional<int> exif_orientation(std::string_view exif);
// Of XMP data (XML).
std::optional<int> xmp_orientation(std::string_view xmp);
// 1 to 8 of what both say; EXIF counts where both do.
int orientation_of(std::string_view exif, std::string_view xmp);

Extent turned(const Extent& extent, int orientation);  // of the upright picture
Picture turn(Picture picture, int orientation);

}  // namespace hone::images
