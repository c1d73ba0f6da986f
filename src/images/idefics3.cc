// The processor of Idefics 3 and SmolVLM: a picture is cut into squares of the tower's size, behind which comes all of
// it in one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hone/error.h"
#include "images/keys.h"
#include "images/processors.h"

namespace hone::images {
namespace {

constexpr std::int64_t kLongestSide = 4096;  // of what is cut

struct Idefics3Keys : CommonKeys {
  using Base = CommonKeys;
  bool do_image_splitting = true;
  config::Open max_image_size = sizes({{"longest_edge", 364}});
  bool do_pad = true, return_row_col_info = false;

  static constexpr auto fields() {
    using K = Idefics3Keys;
    return std::tuple_cat(
        CommonKeys::fields(),
        std::tuple{field("do_image_splitting", &K::do_image_splitting, "Whether pictures are cut."),
                   field("max_image_size", &K::max_image_size, "Pixels on a side of a square."),
                   field("do_pad", &K::do_pad, "Of batches, whose squares are all of one size."),
                   field("return_row_col_info", &K::return_row_col_info, "Of no meaning here: it is always there.")});
  }
};

Idefics3Keys idefics3_defaults() {
  Idefics3Keys keys;
  keys.resample = 1;
  keys.default_to_square = true;
  keys.image_mean = keys.image_std = numbers(0.5, 0.5, 0.5);
  keys.size = sizes({{"longest_edge", 4 * 364}});
  return keys;
}

std::int64_t up_to_multiple(std::int64_t side, std::int64_t unit) { return (side + unit - 1) / unit * unit; }

// The longer side as long as that, the other one even; neither beyond what is ever cut.
Extent by_longer_side(const Extent& picture, std::int64_t longest) {
  const double shape = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  const auto even = [](double side) {
    const auto whole = static_cast<std::int64_t>(side);
    return std::max<std::int64_t>(whole + whole % 2, 1);
  };
  const auto longer = static_cast<double>(longest);
  Extent made =
      picture.width >= picture.height ? Extent{even(longer / shape), longest} : Extent{longest, even(longer * shape)};
  const double now = static_cast<double>(made.width) / static_cast<double>(made.height);
  constexpr double kMost = kLongestSide;
  if (made.width >= made.height && made.width > kLongestSide)
    made = {static_cast<std::int64_t>(kMost / now), kLongestSide};
  else if (made.height > made.width && made.height > kLongestSide)
    made = {kLongestSide, static_cast<std::int64_t>(kMost * now)};
  return {std::max<std::int64_t>(made.height, 1), std::max<std::int64_t>(made.width, 1)};
}

// Both sides multiples of the square's.
Extent by_squares(const Extent& picture, std::int64_t side) {
  const double shape = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  if (picture.width >= picture.height) {
    const std::int64_t width = up_to_multiple(picture.width, side);
    return {up_to_multiple(static_cast<std::int64_t>(static_cast<double>(width) / shape), side), width};
  }
  const std::int64_t height = up_to_multiple(picture.height, side);
  return {height, up_to_multiple(static_cast<std::int64_t>(static_cast<double>(height) * shape), side)};
}

class Idefics3 final : public Processor {
 public:
  Idefics3(const std::string& type, const Idefics3Keys& keys, Problems& problems)
      : type_(type), splits_(keys.do_image_splitting), resizes_(keys.do_resize) {
    CommonKeys always = keys;  // what is cut is resized whatever do_resize says
    always.do_resize = true;
    common_ = resolve(always, problems);
    const Size& size = common_.size;
    problems.require(bool(size.longest_edge) != bool(size.height && size.width) && !size.shortest_edge, "size",
                     "expected longest_edge, or height and width");
    const Size square = read_size(keys.max_image_size, "max_image_size", false, problems);
    problems.require(bool(square.longest_edge), "max_image_size", "expected longest_edge");
    side_ = square.longest_edge.value_or(1);
    problems.require(side_ <= kLongestSide, "max_image_size",
                     fmt::format("got {}, expected at most {}", side_, kLongestSide));
  }

  std::string_view type() const override { return type_; }

  Layout layout(const Extent& upright) const override {
    Layout made;
    if (splits_) {
      const Extent cut = cut_for(upright);
      if (cut.height > side_ || cut.width > side_) {
        made.rows = cut.height / side_;
        made.columns = cut.width / side_;
      }
    }
    made.tiles = made.rows * made.columns + 1;
    made.shape = {made.tiles, 3, side_, side_};
    check_resized(upright, {side_, side_}, {0, 0, made.tiles * side_, side_});
    return made;
  }

  Values process(const Picture& picture) const override {
    Values made{layout(picture.extent()), {}};
    made.values.resize(static_cast<std::size_t>(made.layout.tiles * side_ * side_ * 3));
    float* to = made.values.data();
    const auto turned_into = [&](const Picture& from, const Extent& extent) {
      return resize(from, extent, *common_.filter);
    };
    const Picture first = turned_into(picture, first_for(picture.extent()));
    const Picture whole =
        splits_ ? turned_into(first, by_squares(first.extent(), side_)) : turned_into(first, square());
    to = write_squares(common_, whole, made.layout.rows, made.layout.columns, side_, to);
    write_planes(common_,
                 whole.extent() == square() ? resize(whole, square(), Filter::nearest) : turned_into(whole, square()),
                 to);
    return made;
  }

 private:
  Extent square() const { return {side_, side_}; }

  // A picture is resized to what `size` says, then to squares.
  Extent first_for(const Extent& picture) const {
    Extent made = picture;
    if (resizes_) {
      const Size& size = common_.size;
      made = size.longest_edge ? by_longer_side(picture, *size.longest_edge) : Extent{*size.height, *size.width};
    }
    check_resized(picture, made, {0, 0, made.height, made.width});
    return made;
  }

  Extent cut_for(const Extent& picture) const {
    const Extent cut = by_squares(first_for(picture), side_);
    check_resized(picture, cut, {0, 0, cut.height, cut.width});
    return cut;
  }

  std::string type_;
  bool splits_, resizes_;
  std::int64_t side_ = 1;
  Common common_;
};

}  // namespace

std::unique_ptr<const Processor> make_idefics3(const std::string& type, const config::Node& keys, Problems& problems) {
  return std::make_unique<Idefics3>(type, read_keys(keys, problems, idefics3_defaults()), problems);
}

}  // namespace hone::images
