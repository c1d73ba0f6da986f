// LFM2-VL's processor: a picture keeps about its shape; a large one is cut into squares, behind which comes all of it.
// Either becomes rows of patches.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hone/error.h"
#include "images/keys.h"
#include "images/processors.h"
#include "images/tiling.h"

namespace hone::images {
namespace {

constexpr config::Range kCount{.low = 1, .high = 65536};
constexpr const char* kBeside = "use_image_special_tokens";

struct Lfm2VlKeys : CommonKeys {
  using Base = CommonKeys;
  std::int64_t downsample_factor = 2, min_tiles = 2, max_tiles = 10, min_image_tokens = 64, max_image_tokens = 256,
               encoder_patch_size = 16, tile_size = 512;
  double max_pixels_tolerance = 2;
  bool do_image_splitting = true, use_thumbnail = true, do_pad = true, return_row_col_info = false;
  std::optional<std::int64_t> max_num_patches;
  config::Open crop_size = {};
  bool do_center_crop = false;

  static constexpr auto fields() {
    using K = Lfm2VlKeys;
    constexpr config::Range tiles{.low = 1, .high = 1000};
    return std::tuple_cat(
        CommonKeys::fields(),
        std::tuple{field("downsample_factor", &K::downsample_factor, "Patches on a side of a token.",
                         {.low = 1, .high = 1000}),
                   field("do_image_splitting", &K::do_image_splitting, "Whether large pictures are cut."),
                   field("min_tiles", &K::min_tiles, "Tiles at least.", tiles),
                   field("max_tiles", &K::max_tiles, "Tiles at most.", tiles),
                   field("use_thumbnail", &K::use_thumbnail, "Whether all of a picture comes behind its tiles."),
                   field("min_image_tokens", &K::min_image_tokens, "Tokens of a picture at least.", kCount),
                   field("max_image_tokens", &K::max_image_tokens, "Tokens of a picture at most.", kCount),
                   field("encoder_patch_size", &K::encoder_patch_size, "Pixels on a side of a patch.",
                         {.low = 1, .high = 256}),
                   field("tile_size", &K::tile_size, "Pixels on a side of a tile.", kCount),
                   field("max_pixels_tolerance", &K::max_pixels_tolerance,
                         "A picture of so many times the most pixels is large.", {.low = 0, .high = 1e9}),
                   field("max_num_patches", &K::max_num_patches, "No effect: the numbers above say it.", kCount),
                   field("do_pad", &K::do_pad, "Of batches, whose pictures are read apart here."),
                   field("return_row_col_info", &K::return_row_col_info, "Of no meaning here: it is always there."),
                   field("do_center_crop", &K::do_center_crop, "No effect: nothing is cut out."),
                   field("crop_size", &K::crop_size, "No effect, likewise.")});
  }
};

Lfm2VlKeys lfm2_vl_defaults() {
  Lfm2VlKeys keys;
  keys.resample = 2;
  keys.image_mean = keys.image_std = numbers(0.5, 0.5, 0.5);
  keys.size = sizes({{"height", 512}, {"width", 512}});
  keys.default_to_square = true;
  return keys;
}

double nearest_multiple(double side, double unit) { return std::nearbyint(side / unit) * unit; }

class Lfm2Vl final : public Processor {
 public:
  Lfm2Vl(const std::string& type, const Lfm2VlKeys& keys, Problems& problems) : type_(type), k_(keys) {
    k_.do_resize = true;  // whatever is said
    common_ = resolve(k_, problems);
    unit_ = k_.encoder_patch_size * k_.downsample_factor;
    problems.require(k_.min_image_tokens <= k_.max_image_tokens, "min_image_tokens",
                     fmt::format("got {}, expected at most max_image_tokens ({})", k_.min_image_tokens,
                                 k_.max_image_tokens));
    if (!k_.do_image_splitting) return;
    problems.require(k_.tile_size % unit_ == 0, "tile_size",
                     fmt::format("got {}, expected a multiple of encoder_patch_size times downsample_factor ({})",
                                 k_.tile_size, unit_));
    problems.require(k_.min_tiles >= 2, "min_tiles",
                     fmt::format("got {}, expected at least 2: what is one tile is not cut", k_.min_tiles));
    problems.require(k_.min_tiles <= k_.max_tiles, "min_tiles",
                     fmt::format("got {}, expected at most max_tiles ({})", k_.min_tiles, k_.max_tiles));
  }

  std::string_view type() const override { return type_; }

  Layout layout(const Extent& upright) const override {
    const Extent whole = whole_for(upright);
    check_resized(upright, whole, {0, 0, whole.height, whole.width});
    Layout made;
    made.grid = grid_of(whole);
    if (is_large(upright)) {
      const Tiling tiling = nearest_tiling(upright, k_.min_tiles, k_.max_tiles, k_.tile_size);
      made.rows = tiling.rows, made.columns = tiling.columns;
      made.whole = k_.use_thumbnail ? made.grid : std::array<std::int64_t, 3>{};
      made.grid = grid_of({k_.tile_size, k_.tile_size});
      check_whole(upright, made);
      const Extent cut = cut_into(made);
      check_resized(upright, cut, {0, 0, cut.height, cut.width});
    }
    made.tiles = made.rows * made.columns + (made.rows > 0 && !k_.use_thumbnail ? 0 : 1);
    const auto patches = [](const std::array<std::int64_t, 3>& grid) { return grid[1] * grid[2]; };
    const std::int64_t all = made.rows > 0 ? made.rows * made.columns * patches(made.grid) + patches(made.whole)
                                           : patches(made.grid);
    made.shape = {all, 3 * k_.encoder_patch_size * k_.encoder_patch_size};
    made.tokens = all / (k_.downsample_factor * k_.downsample_factor);
    return made;
  }

  Values process(const Picture& picture) const override {
    Values made{layout(picture.extent()), {}};
    made.values.resize(static_cast<std::size_t>(made.layout.shape[0] * made.layout.shape[1]));
    float* to = made.values.data();
    if (made.layout.rows > 0) to = write_tiles(resize(picture, cut_into(made.layout), *common_.filter), to);
    if (made.layout.rows == 0 || k_.use_thumbnail) {
      const Picture whole = resize(picture, whole_for(picture.extent()), *common_.filter);
      write_patches(whole, {0, 0, whole.height(), whole.width()}, to);
    }
    return made;
  }

 private:
  std::array<std::int64_t, 3> grid_of(const Extent& pixels) const {
    return {1, pixels.height / k_.encoder_patch_size, pixels.width / k_.encoder_patch_size};
  }
  // Of a picture that is cut all of it has as many patches at most as make rows of one length in the reference.
  void check_whole(const Extent& picture, const Layout& made) const {
    const std::int64_t whole = made.whole[1] * made.whole[2];
    const std::int64_t most = std::max(k_.max_image_tokens * k_.downsample_factor * k_.downsample_factor,
                                       made.grid[1] * made.grid[2]);
    if (whole <= most) return;
    throw Error(ErrorKind::data,
                fmt::format("a picture of {} x {} pixels would have {} patches as a whole; expected at most {}",
                            picture.width, picture.height, whole, most))
        .hint("cut it: it is too narrow");
  }

  Extent cut_into(const Layout& layout) const { return {layout.rows * k_.tile_size, layout.columns * k_.tile_size}; }

  double most_pixels() const { return static_cast<double>(k_.max_image_tokens * unit_ * unit_); }

  bool is_large(const Extent& picture) const {
    if (!k_.do_image_splitting) return false;
    const auto unit = static_cast<double>(unit_), least = static_cast<double>(k_.encoder_patch_size);
    const double height = std::max(least, nearest_multiple(static_cast<double>(picture.height), unit)),
                 width = std::max(least, nearest_multiple(static_cast<double>(picture.width), unit));
    return height * width > most_pixels() * k_.max_pixels_tolerance;
  }

  // Sides that are multiples of what becomes a token, of about the picture's shape, with as many pixels as is allowed.
  Extent whole_for(const Extent& picture) const {
    const auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
    const auto unit = static_cast<double>(unit_);
    const double least = static_cast<double>(k_.min_image_tokens * unit_ * unit_);
    const auto of = [&](auto side) { return Extent{static_cast<std::int64_t>(side(height)),
                                                   static_cast<std::int64_t>(side(width))}; };
    const Extent near = of([&](double side) { return std::max(unit, nearest_multiple(side, unit)); });
    const auto pixels = static_cast<double>(near.pixels());
    if (pixels > most_pixels()) {
      const double by = std::sqrt(height * width / most_pixels());
      return of([&](double side) { return std::max(unit, std::floor(side / by / unit) * unit); });
    }
    if (pixels >= least) return near;
    const double by = std::sqrt(least / (height * width));
    return of([&](double side) { return std::ceil(side * by / unit) * unit; });
  }

  // Numbers of a patch: those of a pixel together.
  float* write_patches(const Picture& picture, const Window& window, float* to) const {
    const std::int64_t size = k_.encoder_patch_size;
    for (std::int64_t top = window.top; top < window.top + window.height; top += size)
      for (std::int64_t left = window.left; left < window.left + window.width; left += size)
        for (std::int64_t y = top; y < top + size; ++y) {
          const std::uint8_t* row = picture.row(y) + left * 3;
          for (std::int64_t i = 0; i < size * 3; ++i) *to++ = common_.numbers[i % 3][row[i]];
        }
    return to;
  }

  float* write_tiles(const Picture& picture, float* to) const {
    const std::int64_t side = k_.tile_size;
    for (std::int64_t top = 0; top < picture.height(); top += side)
      for (std::int64_t left = 0; left < picture.width(); left += side)
        to = write_patches(picture, {top, left, side, side}, to);
    return to;
  }

  std::string type_;
  Lfm2VlKeys k_;
  std::int64_t unit_ = 1;
  Common common_;
};

}  // namespace

std::unique_ptr<const Processor> make_lfm2_vl(const std::string& type, const config::Node& keys, Problems& problems) {
  return std::make_unique<Lfm2Vl>(type, read_keys(keys, problems, lfm2_vl_defaults()), problems);
}

config::Node lfm2_vl_among_words(const config::Node& keys, const config::Node& of_words, Problems& problems) {
  const config::Node* beside = of_words.find(kBeside);
  const bool without = beside && beside->kind() == config::Node::Kind::scalar && beside->text() == "false";
  problems.require(!without, kBeside, "got false, expected true: published models have tokens beside pictures");
  return keys;
}

}  // namespace hone::images
