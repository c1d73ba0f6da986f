// Which decoder reads a file, and how a picture is turned upright.
#include "images/picture.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/strings.h"
#include "hone/error.h"
#include "images/formats.h"
#include "images/orientation.h"

namespace hone::images {
namespace {

struct FormatMark {
  std::size_t at;
  std::string_view bytes;
  const char* name;
};

using namespace std::string_view_literals;

// What people have besides and might take for granted.
constexpr FormatMark kOthers[] = {{0, "GIF8"sv, "a GIF"},
                            {0, "BM"sv, "a BMP"},
                            {0, "II*\0"sv, "a TIFF"},
                            {0, "MM\0*"sv, "a TIFF"},
                            {4, "ftypavi"sv, "an AVIF"},
                            {4, "ftyphei"sv, "a HEIC"},
                            {4, "ftypmif"sv, "a HEIF"},
                            {0, "\xff\x0a"sv, "a JPEG XL"},
                            {0, "\0\0\0\x0cJXL "sv, "a JPEG XL"},
                            {0, "\0\0\0\x0cjP  "sv, "a JPEG 2000"},
                            {0, "<svg"sv, "an SVG"},
                            {0, "<?xml"sv, "XML"},
                            {0, "<!DOCTYPE"sv, "an HTML page"},
                            {0, "<html"sv, "an HTML page"}};

bool has(std::string_view file, std::size_t at, std::string_view bytes) {
  return file.size() >= at + bytes.size() && file.substr(at, bytes.size()) == bytes;
}

[[noreturn]] void refuse(std::string_view file) {
  constexpr const char* kExpected = "expected a JPEG, PNG or WebP picture";
  if (file.empty()) throw Error(ErrorKind::data, fmt::format("an empty file; {}", kExpected));
  for (const FormatMark& other : kOthers)
    if (has(file, other.at, other.bytes))
      throw Error(ErrorKind::data, fmt::format("got {} file; {}", other.name, kExpected)).hint("convert it to PNG");
  throw Error(ErrorKind::data,
              fmt::format("no picture; it begins with {}, {}", hone::quoted(file.substr(0, 8)), kExpected));
}

const Format& format_of(std::string_view file) {
  for (const Format* format : {&kJpeg, &kPng, &kWebp})
    if (format->is(file)) return *format;
  refuse(file);
}

void check_extent(const Extent& extent) {
  const auto [height, width] = extent;
  if (height < 1 || width < 1) throw Error(ErrorKind::data, fmt::format("a picture of {} x {} pixels", width, height));
  if (height > kMaxSide || width > kMaxSide || height * width > kMaxPixels)
    throw Error(ErrorKind::data, fmt::format("got a picture of {} x {} pixels, expected at most {} and {} on a side",
                                             width, height, kMaxPixels, kMaxSide))
        .hint("make it smaller: models read far fewer");
}

}  // namespace

Picture::Picture(const Extent& extent)
    : extent_(extent), bytes_(std::make_unique_for_overwrite<std::uint8_t[]>(extent.pixels() * 3)) {}

Extent extent_of(std::string_view file) {
  const Header header = format_of(file).header(file);
  check_extent(header.extent);
  return turned(header.extent, header.orientation);
}

Picture decode(std::string_view file) {
  const Format& format = format_of(file);
  const Header header = format.header(file);
  check_extent(header.extent);
  return turn(format.decode(file, header.extent), header.orientation);
}

}  // namespace hone::images
