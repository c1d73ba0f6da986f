// GOT-OCR 2's processor, which InternVL has: a picture in one square or, cut, in several, behind which comes all of it.
#include <fmt/format.h>

#include "hone/error.h"
#include "images/keys.h"
#include "images/processors.h"
#include "images/tiling.h"

namespace hone::images {
namespace {

constexpr config::Range kTiles{.low = 1, .high = 1000};

struct GotOcr2Keys : CommonKeys {
  using Base = CommonKeys;
  bool crop_to_patches = false, do_center_crop = false, do_pad = false;
  std::int64_t min_patches = 1, max_patches = 12;
  config::Open crop_size = {};

  static constexpr auto fields() {
    using K = GotOcr2Keys;
    return std::tuple_cat(
        CommonKeys::fields(),
        std::tuple{field("crop_to_patches", &K::crop_to_patches, "Whether pictures are cut; among words always."),
                   field("min_patches", &K::min_patches, "Tiles at least.", kTiles),
                   field("max_patches", &K::max_patches, "Tiles at most.", kTiles),
                   field("do_center_crop", &K::do_center_crop, "No effect: nothing is cut out."),
                   field("crop_size", &K::crop_size, "No effect, likewise."),
                   field("do_pad", &K::do_pad, "No effect: tiles are all of one size.")});
  }
};

GotOcr2Keys got_ocr2_defaults() {
  GotOcr2Keys keys;
  keys.image_mean = numbers(0.48145466, 0.4578275, 0.40821073);
  keys.image_std = numbers(0.26862954, 0.26130258, 0.27577711);
  keys.size = sizes({{"height", 384}, {"width", 384}});
  keys.default_to_square = true;
  return keys;
}

class GotOcr2 final : public Processor {
 public:
  GotOcr2(const std::string& type, const GotOcr2Keys& keys, Problems& problems)
      : type_(type), cuts_(keys.crop_to_patches), least_(keys.min_patches), most_(keys.max_patches) {
    common_ = resolve(keys, problems);
    problems.require(keys.do_resize, "do_resize", "got false, expected true: the tower reads one size");
    const Size& size = common_.size;
    problems.require(size.height && size.width && size.height == size.width && !size.shortest_edge, "size",
                     "expected height and width, both the same");
    problems.require(least_ <= most_, "min_patches",
                     fmt::format("got {}, expected at most max_patches ({})", least_, most_));
    side_ = size.height.value_or(1);
  }

  std::string_view type() const override { return type_; }

  Layout layout(const Extent& upright) const override {
    const Tiling tiling = tiling_for(upright);
    Layout made;
    if (tiling.rows * tiling.columns > 1) made.rows = tiling.rows, made.columns = tiling.columns;
    made.tiles = made.rows * made.columns + 1;
    made.shape = {made.tiles, 3, side_, side_};
    check_resized(upright, cut_into(tiling), {0, 0, made.tiles * side_, side_});
    return made;
  }

  Values process(const Picture& picture) const override {
    Values made{layout(picture.extent()), {}};
    made.values.resize(static_cast<std::size_t>(made.layout.tiles * side_ * side_ * 3));
    float* to = made.values.data();
    if (made.layout.rows > 0)
      to = write_squares(common_, resize(picture, cut_into(tiling_for(picture.extent())), *common_.filter),
                         made.layout.rows, made.layout.columns, side_, to);
    write_planes(common_, resize(picture, {side_, side_}, *common_.filter), to);
    return made;
  }

 private:
  Tiling tiling_for(const Extent& picture) const {
    return cuts_ ? nearest_tiling(picture, least_, most_, side_) : Tiling();
  }
  Extent cut_into(const Tiling& tiling) const { return {tiling.rows * side_, tiling.columns * side_}; }

  std::string type_;
  bool cuts_;
  std::int64_t least_, most_, side_ = 1;
  Common common_;
};

}  // namespace

std::unique_ptr<const Processor> make_got_ocr2(const std::string& type, const config::Node& keys, Problems& problems) {
  return std::make_unique<GotOcr2>(type, read_keys(keys, problems, got_ocr2_defaults()), problems);
}

config::Node got_ocr2_among_words(const config::Node& keys, const config::Node&, Problems&) {
  config::Node made = keys;
  made.at_or_add("crop_to_patches") = config::Values<bool>::write(true);
  return made;
}

}  // namespace hone::images
