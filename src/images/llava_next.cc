// LLaVA-NeXT's processor: a picture as a whole, in a square, and in tiles of that size, which it fills as it is.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hone/error.h"
#include "images/keys.h"
#include "images/processors.h"

namespace hone::images {
namespace {

struct LlavaNextKeys : CommonKeys {
  using Base = CommonKeys;
  bool do_center_crop = true, do_pad = true;
  config::Open crop_size = {}, image_grid_pinpoints = {};

  static constexpr auto fields() {
    using K = LlavaNextKeys;
    return std::tuple_cat(
        CommonKeys::fields(),
        std::tuple{field("do_center_crop", &K::do_center_crop, "Changes nothing of tiles of the tower's size."),
                   field("crop_size", &K::crop_size, "Pixels on a side of a tile."),
                   field("do_pad", &K::do_pad, "Of batches, whose tiles are all of one size."),
                   field("image_grid_pinpoints", &K::image_grid_pinpoints,
                         "Heights and widths that a picture is resized to before it is cut into tiles.")});
  }
};

LlavaNextKeys llava_next_defaults() {
  LlavaNextKeys keys;
  keys.image_mean = numbers(0.48145466, 0.4578275, 0.40821073);
  keys.image_std = numbers(0.26862954, 0.26130258, 0.27577711);
  keys.size = sizes({{"shortest_edge", 224}});
  keys.crop_size = sizes({{"height", 224}, {"width", 224}});
  return keys;
}

std::vector<Extent> read_pinpoints(const config::Open& given, std::int64_t side, Problems& problems) {
  constexpr std::int64_t kUsual[][2] = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};
  std::vector<Extent> all;
  if (given.node.is_null()) {
    for (const auto& [height, width] : kUsual) all.push_back({height, width});
  } else {
    const std::size_t before = problems.size();
    for (const config::Node& one : given.node.items()) {
      std::vector<std::int64_t> sides;
      config::Values<std::vector<std::int64_t>>::read(one, sides, {problems, "image_grid_pinpoints", kSide});
      if (problems.size() != before) return {{side, side}};
      problems.require(sides.size() == 2, "image_grid_pinpoints", "expected pairs of a height and a width");
      if (sides.size() == 2) all.push_back({sides[0], sides[1]});
    }
  }
  problems.require(!all.empty(), "image_grid_pinpoints", "expected a list of heights and widths");
  for (const Extent& one : all)
    problems.require(one.height % side == 0 && one.width % side == 0, "image_grid_pinpoints",
                     fmt::format("got {} by {}, expected multiples of the tiles' side ({})", one.height, one.width,
                                 side));
  return all;
}

class LlavaNext final : public Processor {
 public:
  LlavaNext(const std::string& type, const LlavaNextKeys& keys, Problems& problems) : type_(type) {
    common_ = resolve(keys, problems);
    problems.require(keys.do_resize, "do_resize", "got false, expected true: the tower reads one size");
    const Size& size = common_.size;
    const Size crop = read_size(keys.crop_size, "crop_size", true, problems);
    side_ = size.shortest_edge.value_or(size.height.value_or(1));
    const bool square = size.shortest_edge || (size.height && size.height == size.width);
    problems.require(square && crop.height == side_ && crop.width == side_, "crop_size",
                     "expected the same number on each side as size has: tiles are of the tower's size");
    pinpoints_ = read_pinpoints(keys.image_grid_pinpoints, side_, problems);
  }

  std::string_view type() const override { return type_; }

  Layout layout(const Extent& upright) const override {
    const Extent best = best_for(upright);
    check_resized(upright, resized_to(upright, best), {0, 0, best.height, best.width});
    Layout made;
    made.rows = best.height / side_, made.columns = best.width / side_;
    made.tiles = made.rows * made.columns + 1;
    made.shape = {made.tiles, 3, side_, side_};
    made.upright = upright;
    return made;
  }

  Values process(const Picture& picture) const override {
    Values made{layout(picture.extent()), {}};
    const std::int64_t numbers = side_ * side_ * 3;
    made.values.resize(static_cast<std::size_t>(made.layout.tiles * numbers));
    float* to = made.values.data();
    write_planes(common_, resize(picture, {side_, side_}, *common_.filter), to);
    write_squares(common_, laid_out(picture), made.layout.rows, made.layout.columns, side_, to + numbers);
    return made;
  }

 private:
  // Of which the picture fills most, and, of two alike, wastes least.
  Extent best_for(const Extent& picture) const {
    const auto width = static_cast<double>(picture.width), height = static_cast<double>(picture.height);
    Extent best = pinpoints_.front();
    std::int64_t most = 0, least = 0;
    for (const Extent& one : pinpoints_) {
      const double scale = std::min(static_cast<double>(one.width) / width, static_cast<double>(one.height) / height);
      const auto shown = static_cast<std::int64_t>(width * scale) * static_cast<std::int64_t>(height * scale);
      const std::int64_t used = std::min(shown, picture.pixels()), wasted = one.pixels() - used;
      if (used > most || (used == most && most > 0 && wasted < least)) best = one, most = used, least = wasted;
    }
    return best;
  }

  static Extent resized_to(const Extent& picture, const Extent& most) {
    const auto width = static_cast<double>(picture.width), height = static_cast<double>(picture.height);
    const double across = static_cast<double>(most.width) / width, down = static_cast<double>(most.height) / height;
    if (across < down)
      return {std::min(static_cast<std::int64_t>(std::ceil(height * across)), most.height), most.width};
    return {most.height, std::min(static_cast<std::int64_t>(std::ceil(width * down)), most.width)};
  }

  // In the middle of black.
  Picture laid_out(const Picture& picture) const {
    const Extent best = best_for(picture.extent());
    Picture part = resize(picture, resized_to(picture.extent(), best), *common_.filter);
    if (part.extent() == best) return part;
    Picture laid(best);
    std::fill_n(laid.row(0), best.pixels() * 3, std::uint8_t{0});
    const std::int64_t top = (best.height - part.height()) / 2, left = (best.width - part.width()) / 2;
    for (std::int64_t y = 0; y < part.height(); ++y)
      std::memcpy(laid.row(top + y) + left * 3, part.row(y), static_cast<std::size_t>(part.width()) * 3);
    return laid;
  }

  std::string type_;
  std::int64_t side_ = 1;
  std::vector<Extent> pinpoints_;
  Common common_;
};

}  // namespace

std::unique_ptr<const Processor> make_llava_next(const std::string& type, const config::Node& keys,
                                                 Problems& problems) {
  return std::make_unique<LlavaNext>(type, read_keys(keys, problems, llava_next_defaults()), problems);
}

}  // namespace hone::images
