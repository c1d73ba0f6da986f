// The tag Orientation of TIFF 6.0, and the eight ways in which it turns and mirrors.
#include "images/orientation.h"

#include <cstring>
#include <utility>

namespace hone::images {
namespace {

constexpr std::string_view kExif{"Exif\0\0", 6};
constexpr unsigned kOrientation = 0x0112, kShort = 3, kLong = 4;

// Numbers of a TIFF in its own order of bytes; what lies beyond its end is nothing.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes), is_little_(bytes.starts_with("II")) {}
  bool is_one() const {
    return bytes_.starts_with(std::string_view("II*\0", 4)) || bytes_.starts_with(std::string_view("MM\0*", 4));
  }
  std::optional<std::uint32_t> number(std::uint64_t at, unsigned size) const {
    if (at + size > bytes_.size()) return std::nullopt;
    std::uint32_t value = 0;
    for (unsigned i = 0; i < size; ++i)
      value = value << 8 | static_cast<unsigned char>(bytes_[at + (is_little_ ? size - 1 - i : i)]);
    return value;
  }

 private:
  std::string_view bytes_;
  bool is_little_;
};

bool is_orientation(std::uint32_t value) { return value >= 1 && value <= 8; }

// What an entry of a folder of tags holds, where it is one number and lies in the entry itself; upright, where it is
// something else.
int value_of(const Tiff& tiff, std::uint64_t entry) {
  const auto type = tiff.number(entry + 2, 2), count = tiff.number(entry + 4, 4);
  if (count != 1u || (type != kShort && type != kLong)) return 1;
  const auto value = tiff.number(entry + 8, *type == kShort ? 2 : 4);
  return value && is_orientation(*value) ? static_cast<int>(*value) : 1;
}

}  // namespace

std::optional<int> exif_orientation(std::string_view exif) {
  while (exif.starts_with(kExif)) exif.remove_prefix(kExif.size());
  const Tiff tiff(exif);
  if (!tiff.is_one()) return std::nullopt;
  const auto folder = tiff.number(4, 4);
  const auto entries = folder ? tiff.number(*folder, 2) : std::nullopt;
  for (std::uint64_t i = 0; entries && i < *entries; ++i) {
    const std::uint64_t entry = std::uint64_t{*folder} + 2 + 12 * i;
    const auto tag = tiff.number(entry, 2);
    if (!tag) break;
    if (*tag == kOrientation) return value_of(tiff, entry);
  }
  return std::nullopt;
}

std::optional<int> xmp_orientation(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (std::size_t at = xmp.find(kName); at != xmp.npos; at = xmp.find(kName, at + 1)) {
    std::string_view rest = xmp.substr(at + kName.size());
    if (rest.starts_with("=\""))
      rest.remove_prefix(2);
    else if (rest.starts_with(">"))
      rest.remove_prefix(1);
    else
      continue;
    if (rest.empty() || rest[0] < '0' || rest[0] > '9') continue;
    return is_orientation(rest[0] - '0') ? std::optional(rest[0] - '0') : std::nullopt;
  }
  return std::nullopt;
}

int orientation_of(std::string_view exif, std::string_view xmp) {
  if (const auto said = exif_orientation(exif)) return *said;
  return xmp_orientation(xmp).value_or(1);
}

Extent turned(const Extent& extent, int orientation) {
  return orientation >= 5 ? Extent{extent.width, extent.height} : extent;
}

Picture turn(Picture picture, int orientation) {
  if (orientation <= 1) return picture;
  // Where the upright picture's first pixel lies, and the way from it to the next one in its row and its column.
  const std::int64_t row = picture.width() * 3, last_row = (picture.height() - 1) * row, last = row - 3;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  std::int64_t along = from_right ? -3 : 3, down = from_below ? -row : row;
  if (orientation >= 5) std::swap(along, down);
  const std::uint8_t* first = picture.row(0) + (from_below ? last_row : 0) + (from_right ? last : 0);
  Picture upright(turned(picture.extent(), orientation));
  for (std::int64_t y = 0; y < upright.height(); ++y) {
    const std::uint8_t* from = first + y * down;
    std::uint8_t* to = upright.row(y);
    for (std::int64_t x = 0; x < upright.width(); ++x) std::memcpy(to + x * 3, from + x * along, 3);
  }
  return upright;
}

}  // namespace hone::images
