// What preprocessor_config.json may say, as far as processors have it in common.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "hone/config.h"
#include "hone/config_read.h"
#include "images/picture.h"
#include "images/resize.h"

namespace hone::images {

inline constexpr config::Range kSide{.low = 1, .high = 2147483647};

// The keys that sizes have; which of them count together is the processor's matter.
struct Size {
  std::optional<std::int64_t> height, width, shortest_edge, longest_edge, max_height, max_width, min_pixels, max_pixels;

  static constexpr auto fields() {
    return std::tuple{field("height", &Size::height, "Pixels.", kSide),
                      field("width", &Size::width, "Pixels.", kSide),
                      field("shortest_edge", &Size::shortest_edge, "Pixels of the shorter side.", kSide),
                      field("longest_edge", &Size::longest_edge, "Pixels of the longer side.", kSide),
                      field("max_height", &Size::max_height, "Pixels, at most.", kSide),
                      field("max_width", &Size::max_width, "Pixels, at most.", kSide),
                      field("min_pixels", &Size::min_pixels, "Pixels of the whole picture, at least.", kSide),
                      field("max_pixels", &Size::max_pixels, "Pixels of the whole picture, at most.", kSide)};
  }
};

struct CommonKeys {
  bool do_resize = true;
  config::Open size = {};
  std::int64_t resample = 3;
  bool do_rescale = true;
  double rescale_factor = 1.0 / 255;
  bool do_normalize = true;
  config::Open image_mean = {}, image_std = {};
  bool do_convert_rgb = true, default_to_square = false;
  std::string data_format = "channels_first";

  static constexpr auto fields() {
    using K = CommonKeys;
    return std::tuple{field("do_resize", &K::do_resize, "Whether pictures are resized."),
                      field("size", &K::size, "To what; a number, a pair, or keys."),
                      field("resample", &K::resample, "Pillow's number of the filter.", {.low = 0, .high = 5}),
                      field("do_rescale", &K::do_rescale, "Whether bytes are multiplied by rescale_factor."),
                      field("rescale_factor", &K::rescale_factor, "By what.", {.low = 1e-9, .high = 1e9}),
                      field("do_normalize", &K::do_normalize, "Whether the mean and the deviation are made 0 and 1."),
                      field("image_mean", &K::image_mean, "Of red, green and blue, or one number of all."),
                      field("image_std", &K::image_std, "Of red, green and blue, or one number of all."),
                      field("do_convert_rgb", &K::do_convert_rgb, "Must be true."),
                      field("default_to_square", &K::default_to_square, "Whether a size of one number is a square."),
                      field("data_format", &K::data_format, "Must be channels_first.")};
  }
};

// What CommonKeys comes to.
struct Common {
  std::optional<Filter> filter;  // nothing: pictures stay as large as they are
  Size size;
  std::array<std::array<float, 256>, 3> numbers;  // what each byte of a colour becomes
};
Common resolve(const CommonKeys& keys, Problems& problems);

config::Open numbers(double red, double green, double blue);
config::Open sizes(std::initializer_list<std::pair<const char*, std::int64_t>> size);
// square: what one number is, or else it is the shorter side.
Size read_size(const config::Open& size, const char* key, bool square, Problems& problems);

// The keys of one type out of all that is written; given: its defaults. Keys that are null are not given.
template <config::Group Keys>
Keys read_keys(const config::Node& node, Problems& problems, Keys given) {
  config::read(node, given, problems);
  return given;
}

// As the towers read them: one plane of numbers for each colour.
void write_planes(const Common& common, const Picture& picture, float* to);
// The same of each square of this side, row by row; gives the place behind them.
float* write_squares(const Common& common, const Picture& picture, std::int64_t rows, std::int64_t columns,
                     std::int64_t side, float* to);

// What a size means for a picture, of those that leave its shape or give both sides. Error(data): too large.
Extent resized(const Size& size, const Extent& picture);
// Nothing to say against a size for resized().
void check_size(const Size& size, Problems& problems);

}  // namespace hone::images
