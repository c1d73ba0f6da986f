// Reads the common keys, and computes what torchvision's processors compute from them.
#include "images/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::images {
namespace {

using config::Node;

std::array<double, 3> read_colours(const config::Open& value, const char* key, Problems& problems) {
  std::vector<double> read;
  config::Values<std::vector<double>>::read(value.node, read, {problems, key, {.low = -1e9, .high = 1e9}});
  if (read.size() == 1) return {read[0], read[0], read[0]};
  if (read.size() == 3) return {read[0], read[1], read[2]};
  problems.add(key, fmt::format("got {}, expected one or three", counted(std::int64_t(read.size()), "number")));
  return {1, 1, 1};
}

std::optional<Filter> filter_of(const CommonKeys& keys, Problems& problems) {
  if (!keys.do_resize) return std::nullopt;
  problems.require(
      keys.resample <= 3, "resample",
      fmt::format("got {}, expected 0 (nearest), 1 (Lanczos), 2 (bilinear) or 3 (bicubic)", keys.resample));
  return static_cast<Filter>(std::min<std::int64_t>(keys.resample, 3));
}

// The reference computes in floats, with the factor taken into the mean and the deviation.
float number_of(const CommonKeys& keys, int byte, double mean, double deviation) {
  const float value = static_cast<float>(byte);
  if (!keys.do_normalize) return keys.do_rescale ? value * static_cast<float>(keys.rescale_factor) : value;
  const float unit = keys.do_rescale ? static_cast<float>(1.0 / keys.rescale_factor) : 1.0f;
  return (value - static_cast<float>(mean) * unit) / (static_cast<float>(deviation) * unit);
}

}  // namespace

Common resolve(const CommonKeys& keys, Problems& problems) {
  Common made;
  made.filter = filter_of(keys, problems);
  problems.require(keys.do_convert_rgb, "do_convert_rgb", "got false, expected true: towers read red, green and blue");
  problems.require(keys.data_format == "channels_first", "data_format",
                   fmt::format("got {}, expected channels_first", hone::quoted(keys.data_format)));
  if (keys.do_resize) made.size = read_size(keys.size, "size", keys.default_to_square, problems);
  std::array<double, 3> mean = {}, deviation = {1, 1, 1};
  if (keys.do_normalize) {
    mean = read_colours(keys.image_mean, "image_mean", problems);
    deviation = read_colours(keys.image_std, "image_std", problems);
    for (const double one : deviation)
      problems.require(static_cast<float>(one) != 0, "image_std", "got 0, by which numbers are divided");
  }
  for (int colour = 0; colour < 3; ++colour)
    for (int byte = 0; byte < 256; ++byte)
      made.numbers[colour][byte] = number_of(keys, byte, mean[colour], deviation[colour]);
  return made;
}

config::Open numbers(double red, double green, double blue) {
  using config::Values;
  return {Node::list({Values<double>::write(red), Values<double>::write(green), Values<double>::write(blue)})};
}

config::Open sizes(std::initializer_list<std::pair<const char*, std::int64_t>> size) {
  Node map = Node::map();
  for (const auto& [key, pixels] : size) map.at_or_add(key) = config::Values<std::int64_t>::write(pixels);
  return {map};
}

Size read_size(const config::Open& size, const char* key, bool square, Problems& problems) {
  Size made;
  const config::At at{problems, key, kSide};
  if (size.node.is_map()) {
    Node given = Node::map({}, size.node.mark());
    for (const auto& [name, value] : size.node.entries())
      if (!value.is_null()) given.at_or_add(name) = value;
    config::Values<Size>::read(given, made, at);
    return made;
  }
  std::vector<std::int64_t> sides;
  config::Values<std::vector<std::int64_t>>::read(size.node, sides, at);
  if (sides.size() == 1 && !square)
    made.shortest_edge = sides[0];
  else if (sides.size() == 1)
    made.height = made.width = sides[0];
  else if (sides.size() == 2)
    made.height = sides[0], made.width = sides[1];
  else
    problems.add(key, "expected a number of pixels, a height and a width, or keys");
  return made;
}

void check_size(const Size& size, Problems& problems) {
  const bool both = size.height && size.width, one = size.height || size.width;
  const bool most = size.max_height && size.max_width, some = size.max_height || size.max_width;
  const int kinds = both + most + bool(size.shortest_edge);
  problems.require(kinds == 1 && both == one && most == some && !size.min_pixels && !size.max_pixels, "size",
                   "expected height and width, shortest_edge with longest_edge or without, or max_height and "
                   "max_width");
}

namespace {

Extent by_shorter_side(const Extent& picture, std::int64_t shorter) {
  const auto [height, width] = picture;
  const std::int64_t least = std::min(height, width), most = std::max(height, width);
  const auto longer = static_cast<std::int64_t>(static_cast<double>(shorter * most) / static_cast<double>(least));
  return width <= height ? Extent{longer, shorter} : Extent{shorter, longer};
}

Extent by_both_sides(const Extent& picture, std::int64_t shorter, std::int64_t longer) {
  const auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
  const double least = std::min(height, width), most = std::max(height, width);
  double exact = static_cast<double>(shorter);
  if (most / least * exact > static_cast<double>(longer)) {
    exact = static_cast<double>(longer) * least / most;
    shorter = static_cast<std::int64_t>(std::nearbyint(exact));
  }
  if (std::min(picture.height, picture.width) == shorter) return picture;
  if (picture.width < picture.height) return {static_cast<std::int64_t>(exact * height / width), shorter};
  return {shorter, static_cast<std::int64_t>(exact * width / height)};
}

Extent within(const Extent& picture, std::int64_t most_height, std::int64_t most_width) {
  const auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
  const double scale = std::min(static_cast<double>(most_height) / height, static_cast<double>(most_width) / width);
  return {static_cast<std::int64_t>(height * scale), static_cast<std::int64_t>(width * scale)};
}

}  // namespace

Extent resized(const Size& size, const Extent& picture) {
  Extent made;
  if (size.shortest_edge && size.longest_edge)
    made = by_both_sides(picture, *size.shortest_edge, *size.longest_edge);
  else if (size.shortest_edge)
    made = by_shorter_side(picture, *size.shortest_edge);
  else if (size.max_height)
    made = within(picture, *size.max_height, *size.max_width);
  else
    made = {*size.height, *size.width};
  if (made.height < 1 || made.width < 1)
    throw Error(ErrorKind::data, fmt::format("a picture of {} x {} pixels would be resized to {} x {}", picture.width,
                                             picture.height, made.width, made.height))
        .hint("cut it: it is too narrow");
  return made;
}

void write_planes(const Common& common, const Picture& picture, float* to) {
  const std::int64_t plane = picture.extent().pixels();
  for (std::int64_t y = 0; y < picture.height(); ++y) {
    const std::uint8_t* row = picture.row(y);
    for (int colour = 0; colour < 3; ++colour) {
      float* line = to + colour * plane + y * picture.width();
      for (std::int64_t x = 0; x < picture.width(); ++x) line[x] = common.numbers[colour][row[x * 3 + colour]];
    }
  }
}

float* write_squares(const Common& common, const Picture& picture, std::int64_t rows, std::int64_t columns,
                     std::int64_t side, float* to) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column, to += side * side * 3)
      write_planes(common, resize(picture, picture.extent(), Filter::nearest, {row * side, column * side, side, side}),
                   to);
  return to;
}

}  // namespace hone::images
