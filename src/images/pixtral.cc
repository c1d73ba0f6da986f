// Pixtral's processor: a picture keeps its shape, and becomes no smaller than it must; its sides are multiples of what
// becomes a token.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hone/error.h"
#include "images/keys.h"
#include "images/processors.h"

namespace hone::images {
namespace {

using config::Node;

constexpr const char *kRowEnd = "[IMG_BREAK]", *kPictureEnd = "[IMG_END]";

struct PixtralKeys : CommonKeys {
  using Base = CommonKeys;
  config::Open patch_size = sizes({{"height", 16}, {"width", 16}});
  bool do_center_crop = false, do_pad = true;
  config::Open crop_size = {};

  static constexpr auto fields() {
    using K = PixtralKeys;
    return std::tuple_cat(
        CommonKeys::fields(),
        std::tuple{field("patch_size", &K::patch_size, "Sides are multiples of it; among words, of what is a token."),
                   field("do_center_crop", &K::do_center_crop, "Must be false."),
                   field("crop_size", &K::crop_size, "No effect: nothing is cut out."),
                   field("do_pad", &K::do_pad, "Of batches, whose pictures are read apart here.")});
  }
};

PixtralKeys pixtral_defaults() {
  PixtralKeys keys;
  keys.image_mean = numbers(0.48145466, 0.4578275, 0.40821073);
  keys.image_std = numbers(0.26862954, 0.26130258, 0.27577711);
  keys.size = sizes({{"longest_edge", 1024}});
  keys.default_to_square = true;
  return keys;
}

std::int64_t to_whole_units(std::int64_t side, std::int64_t unit) { return (side + unit - 1) / unit * unit; }

class Pixtral final : public Processor {
 public:
  Pixtral(const std::string& type, const PixtralKeys& keys, Problems& problems) : type_(type) {
    common_ = resolve(keys, problems);
    problems.require(!keys.do_center_crop, "do_center_crop", "got true, expected false: pictures are read whole");
    const Size& size = common_.size;
    const bool both = size.height && size.width;
    problems.require(!keys.do_resize || (bool(size.longest_edge) != both && !size.shortest_edge), "size",
                     "expected longest_edge, or height and width");
    most_ = both ? Extent{*size.height, *size.width}
                 : Extent{size.longest_edge.value_or(1), size.longest_edge.value_or(1)};
    const Size unit = read_size(keys.patch_size, "patch_size", true, problems);
    problems.require(unit.height && unit.width, "patch_size", "expected height and width");
    unit_ = {unit.height.value_or(1), unit.width.value_or(1)};
  }

  std::string_view type() const override { return type_; }

  Layout layout(const Extent& upright) const override {
    const Extent full = full_for(upright);
    return {.shape = {1, 3, full.height, full.width}};
  }

  Values process(const Picture& picture) const override {
    const Extent full = full_for(picture.extent());
    Values made{layout(picture.extent()), std::vector<float>(static_cast<std::size_t>(full.pixels()) * 3)};
    if (full == picture.extent())
      write_planes(common_, picture, made.values.data());
    else
      write_planes(common_, resize(picture, full, *common_.filter), made.values.data());
    return made;
  }

 private:
  Extent full_for(Extent picture) const {
    if (!common_.filter) return picture;
    const auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
    const double times = std::max(height / static_cast<double>(most_.height), width / static_cast<double>(most_.width));
    Extent within = picture;
    if (times > 1)
      within = {static_cast<std::int64_t>(std::floor(height / times)),
                static_cast<std::int64_t>(std::floor(width / times))};
    if (within.height < 1 || within.width < 1)
      throw Error(ErrorKind::data, fmt::format("a picture of {} x {} pixels would be resized to {} x {}",
                                               picture.width, picture.height, within.width, within.height))
          .hint("cut it: it is too narrow");
    const Extent full{to_whole_units(within.height, unit_.height), to_whole_units(within.width, unit_.width)};
    check_resized(picture, full, {0, 0, full.height, full.width});
    return full;
  }

  std::string type_;
  Common common_;
  Extent most_, unit_;
};

}  // namespace

std::unique_ptr<const Processor> make_pixtral(const std::string& type, const Node& keys, Problems& problems) {
  return std::make_unique<Pixtral>(type, read_keys(keys, problems, pixtral_defaults()), problems);
}

Node pixtral_among_words(const Node& keys, const Node& of_words, Problems& problems) {
  const auto number = [&](const char* key, std::int64_t absent) {
    std::int64_t value = absent;
    if (const Node* said = of_words.find(key); said && !said->is_null())
      config::Values<std::int64_t>::read(*said, value, {problems, key, {.low = 1, .high = 65536}});
    return value;
  };
  const auto expect = [&](const char* key, const std::string& token) {
    const Node* said = of_words.find(key);
    problems.require(!said || said->is_null() || (said->kind() == Node::Kind::scalar && said->text() == token), key,
                     fmt::format("expected {}, as all published models have it", token));
  };
  expect("image_break_token", kRowEnd), expect("image_end_token", kPictureEnd);
  Node made = keys;
  made.at_or_add("patch_size") =
      config::Values<std::int64_t>::write(number("patch_size", 16) * number("spatial_merge_size", 1));
  return made;
}

}  // namespace hone::images
