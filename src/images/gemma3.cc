// Gemma 3's processor: a picture of the tower's size, and, with pan and scan, parts of a long one beside it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hone/error.h"
#include "images/keys.h"
#include "images/processors.h"

namespace hone::images {
namespace {

struct Gemma3Keys : CommonKeys {
  using Base = CommonKeys;
  bool do_pan_and_scan = false;
  std::optional<std::int64_t> pan_and_scan_min_crop_size, pan_and_scan_max_num_crops;
  std::optional<double> pan_and_scan_min_ratio_to_activate;

  static constexpr auto fields() {
    using K = Gemma3Keys;
    return std::tuple_cat(
        CommonKeys::fields(),
        std::tuple{
            field("do_pan_and_scan", &K::do_pan_and_scan, "Whether long pictures are shown in parts, too."),
            field("pan_and_scan_min_crop_size", &K::pan_and_scan_min_crop_size, "Pixels on a side of a part.", kSide),
            field("pan_and_scan_max_num_crops", &K::pan_and_scan_max_num_crops, "Parts at most.",
                  {.low = 1, .high = 1000}),
            field("pan_and_scan_min_ratio_to_activate", &K::pan_and_scan_min_ratio_to_activate,
                  "So many times as long as it is wide.", {.low = 0, .high = 1e9})});
  }
};

Gemma3Keys gemma3_defaults() {
  Gemma3Keys keys;
  keys.resample = 2;
  keys.default_to_square = true;
  keys.image_mean = keys.image_std = numbers(0.5, 0.5, 0.5);
  keys.size = sizes({{"height", 224}, {"width", 224}});
  return keys;
}

class Gemma3 final : public Processor {
 public:
  Gemma3(const std::string& type, const Gemma3Keys& keys, Problems& problems) : type_(type) {
    common_ = resolve(keys, problems);
    problems.require(keys.do_resize, "do_resize", "got false, expected true: the tower reads one size");
    problems.require(common_.size.height && common_.size.width, "size", "expected height and width");
    tile_ = {common_.size.height.value_or(1), common_.size.width.value_or(1)};
    scans_ = keys.do_pan_and_scan;
    if (!scans_) return;
    problems.require(
        keys.pan_and_scan_min_crop_size && keys.pan_and_scan_max_num_crops && keys.pan_and_scan_min_ratio_to_activate,
        "do_pan_and_scan",
        "got true, which needs pan_and_scan_min_crop_size, pan_and_scan_max_num_crops and "
        "pan_and_scan_min_ratio_to_activate");
    least_ = keys.pan_and_scan_min_crop_size.value_or(1);
    most_ = keys.pan_and_scan_max_num_crops.value_or(1);
    ratio_ = keys.pan_and_scan_min_ratio_to_activate.value_or(0);
  }

  std::string_view type() const override { return type_; }
  bool cuts_long_pictures() const override { return scans_; }

  Layout layout(const Extent& upright) const override {
    const auto [rows, columns] = parts_of(upright);
    Layout made;
    made.rows = rows;
    made.columns = columns;
    made.tiles = 1 + rows * columns;
    made.shape = {made.tiles, 3, tile_.height, tile_.width};
    check_resized(upright, tile_, {0, 0, made.tiles * tile_.height, tile_.width});
    return made;
  }

  Values process(const Picture& picture) const override {
    Values made{layout(picture.extent()), {}};
    const std::int64_t numbers = tile_.pixels() * 3;
    made.values.resize(static_cast<std::size_t>(made.layout.tiles * numbers));
    float* to = made.values.data();
    write_planes(common_, resize(picture, tile_, *common_.filter), to);
    for (std::int64_t part = 0; part + 1 < made.layout.tiles; ++part) {
      const Window window = window_of(picture.extent(), made.layout, part);
      const Picture cut = resize(picture, picture.extent(), Filter::nearest, window);
      write_planes(common_, resize(cut, tile_, *common_.filter), to += numbers);
    }
    return made;
  }

 private:
  // Rows and columns of parts; of a picture that is not long none.
  std::pair<std::int64_t, std::int64_t> parts_of(const Extent& picture) const {
    if (!scans_) return {0, 0};
    const bool is_wide = picture.width >= picture.height;
    const std::int64_t along = std::max(picture.height, picture.width),
                       across = std::min(picture.height, picture.width);
    const double times = static_cast<double>(along) / static_cast<double>(across);
    if (times < ratio_) return {0, 0};
    std::int64_t count = std::min(along / least_, static_cast<std::int64_t>(std::floor(times + 0.5)));
    count = std::min(most_, std::max<std::int64_t>(2, count));
    if (std::min(length_of(along, count), across) < least_) return {0, 0};
    return is_wide ? std::pair<std::int64_t, std::int64_t>{1, count} : std::pair<std::int64_t, std::int64_t>{count, 1};
  }

  static std::int64_t length_of(std::int64_t side, std::int64_t parts) { return (side + parts - 1) / parts; }

  // The last part is shorter where the side is no multiple.
  static Window window_of(const Extent& picture, const Layout& layout, std::int64_t part) {
    const std::int64_t height = length_of(picture.height, layout.rows),
                       width = length_of(picture.width, layout.columns);
    const std::int64_t top = part / layout.columns * height, left = part % layout.columns * width;
    if (top >= picture.height || left >= picture.width)
      throw Error(ErrorKind::data, fmt::format("a picture of {} x {} pixels has no {} parts", picture.width,
                                               picture.height, layout.rows * layout.columns));
    return {top, left, std::min(height, picture.height - top), std::min(width, picture.width - left)};
  }

  std::string type_;
  Common common_;
  Extent tile_;
  bool scans_ = false;
  std::int64_t least_ = 1, most_ = 1;
  double ratio_ = 0;
};

}  // namespace

std::unique_ptr<const Processor> make_gemma3(const std::string& type, const config::Node& keys, Problems& problems) {
  return std::make_unique<Gemma3>(type, read_keys(keys, problems, gemma3_defaults()), problems);
}

}  // namespace hone::images
