// Pictures: decoding JPEG, PNG and WebP to upright RGB of eight bits, as Pillow reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace hone::images {

struct Extent {
  std::int64_t height = 0, width = 0;
  std::int64_t pixels() const { return height * width; }
  bool operator==(const Extent&) const = default;
};

// Larger ones are refused before anything is decoded: beyond so many pixels Pillow warns of a bomb, and a JPEG has no
// longer side.
inline constexpr std::int64_t kMaxPixels = 89'478'485, kMaxSide = 65'535;

// Rows of red, green and blue, one after the other.
class Picture {
 public:
  explicit Picture(const Extent& extent);  // its bytes are not set
  const Extent& extent() const { return extent_; }
  std::int64_t height() const { return extent_.height; }
  std::int64_t width() const { return extent_.width; }
  std::uint8_t* row(std::int64_t y) { return bytes_.get() + y * extent_.width * 3; }
  const std::uint8_t* row(std::int64_t y) const { return bytes_.get() + y * extent_.width * 3; }

 private:
  Extent extent_;
  std::unique_ptr<std::uint8_t[]> bytes_;
};

// Of the picture as decode() gives it, upright (the orientation of its EXIF or XMP data is followed), from the bytes of
// its file; nothing is decoded. Error(data): neither JPEG, PNG nor WebP, damaged, or of more than kMaxPixels
// pixels or kMaxSide on a side.
Extent extent_of(std::string_view file);

// Grey becomes RGB, CMYK as Pillow converts it, and what is transparent is laid upon white, as transformers does with a
// picture that has an alpha channel. Sixteen bits lose the lower eight, also of grey, of which Pillow makes white
// wherever a number is above 255. Error(data), also for files that end too soon.
Picture decode(std::string_view file);

}  // namespace hone::images
