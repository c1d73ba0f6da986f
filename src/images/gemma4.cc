// Gemma 4's processors: a picture keeps about its shape and is resized to as many patches as its tokens may have. In
// unified models patches are as large as a token.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "hone/error.h"
#include "images/keys.h"
#include "images/processors.h"

namespace hone::images {
namespace {

constexpr config::Range kPatchSide{.low = 1, .high = 1024};
constexpr std::array<std::int64_t, 5> kTokens{70, 140, 280, 560, 1120};  // that there are models for

struct Gemma4Keys : CommonKeys {
  using Base = CommonKeys;
  std::int64_t patch_size = 16, max_soft_tokens = 280, pooling_kernel_size = 3;

  static constexpr auto fields() {
    using K = Gemma4Keys;
    return std::tuple_cat(
        CommonKeys::fields(),
        std::tuple{field("patch_size", &K::patch_size, "Pixels on a side of a patch.", kPatchSide),
                   field("max_soft_tokens", &K::max_soft_tokens, "Tokens of a picture at most."),
                   field("pooling_kernel_size", &K::pooling_kernel_size, "Patches on a side of what becomes a token.",
                         {.low = 1, .high = 64})});
  }
};

Gemma4Keys gemma4_defaults() {
  Gemma4Keys keys;
  keys.do_normalize = false;
  keys.image_mean = numbers(0, 0, 0);
  keys.image_std = numbers(1, 1, 1);
  keys.default_to_square = true;
  keys.size = sizes({{"shortest_edge", 1}});  // not read: tokens say how large a picture is
  return keys;
}

std::int64_t whole_times(double side, std::int64_t unit) {
  return static_cast<std::int64_t>(std::floor(side / static_cast<double>(unit))) * unit;
}

class Gemma4 final : public Processor {
 public:
  Gemma4(const std::string& type, const Gemma4Keys& keys, bool is_unified, Problems& problems)
      : type_(type), unit_(keys.patch_size * keys.pooling_kernel_size), most_tokens_(keys.max_soft_tokens) {
    patch_ = is_unified ? unit_ : keys.patch_size;
    common_ = resolve(keys, problems);
    problems.require(keys.do_resize, "do_resize", "got false, expected true: a picture has whole tokens");
    problems.require(std::find(kTokens.begin(), kTokens.end(), most_tokens_) != kTokens.end(), "max_soft_tokens",
                     fmt::format("got {}, expected 70, 140, 280, 560 or 1120", most_tokens_));
  }

  std::string_view type() const override { return type_; }

  Layout layout(const Extent& upright) const override {
    const Extent full = full_for(upright);
    Layout made;
    made.grid = {1, full.height / patch_, full.width / patch_};
    made.shape = {made.grid[1] * made.grid[2], 3 * patch_ * patch_};
    made.tokens = full.pixels() / (unit_ * unit_);
    return made;
  }

  Values process(const Picture& picture) const override {
    const Extent full = full_for(picture.extent());
    Values made{layout(picture.extent()), {}};
    made.values.resize(static_cast<std::size_t>(full.pixels() * 3));
    if (full == picture.extent())
      write_patches(picture, made);
    else
      write_patches(resize(picture, full, *common_.filter), made);
    return made;
  }

 private:
  // The largest of about the same shape whose sides are whole numbers of tokens.
  Extent full_for(const Extent& picture) const {
    const auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
    const double pixels = static_cast<double>(most_tokens_ * unit_ * unit_);
    const double by = std::sqrt(pixels / (height * width));
    Extent full{whole_times(by * height, unit_), whole_times(by * width, unit_)};
    const std::int64_t longest = most_tokens_ * unit_;
    if (full.height == 0) full = {unit_, std::min(whole_times(width / height, 1) * unit_, longest)};
    else if (full.width == 0) full = {std::min(whole_times(height / width, 1) * unit_, longest), unit_};
    check_resized(picture, full, {0, 0, full.height, full.width});
    return full;
  }

  // Patches row by row, of each its pixels row by row, of each its colours.
  void write_patches(const Picture& picture, Values& made) const {
    float* to = made.values.data();
    for (std::int64_t top = 0; top < picture.height(); top += patch_)
      for (std::int64_t left = 0; left < picture.width(); left += patch_)
        for (std::int64_t y = top; y < top + patch_; ++y) {
          const std::uint8_t* pixel = picture.row(y) + left * 3;
          for (std::int64_t x = 0; x < patch_; ++x)
            for (int colour = 0; colour < 3; ++colour) *to++ = common_.numbers[colour][*pixel++];
        }
  }

  std::string type_;
  std::int64_t unit_, most_tokens_, patch_ = 1;
  Common common_;
};

std::unique_ptr<const Processor> made_of(const std::string& type, const config::Node& node, bool is_unified,
                                         Problems& problems) {
  problems.require(!node.find("size"), "size", "got one, expected none: max_soft_tokens says how large pictures are");
  return std::make_unique<Gemma4>(type, read_keys(node, problems, gemma4_defaults()), is_unified, problems);
}

}  // namespace

std::unique_ptr<const Processor> make_gemma4(const std::string& type, const config::Node& keys, Problems& problems) {
  return made_of(type, keys, /*is_unified=*/false, problems);
}
std::unique_ptr<const Processor> make_gemma4_unified(const std::string& type, const config::Node& keys,
                                                     Problems& problems) {
  return made_of(type, keys, /*is_unified=*/true, problems);
}

}  // namespace hone::images
