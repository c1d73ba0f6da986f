// CLIP's processor, SigLIP's and LLaVA's: every picture becomes one of the tower's size.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "hone/error.h"
#include "images/keys.h"
#include "images/processors.h"

namespace hone::images {
namespace {

struct FixedKeys : CommonKeys {
  using Base = CommonKeys;
  bool do_center_crop = false;
  config::Open crop_size = {};
  bool do_pad = false;

  static constexpr auto fields() {
    using K = FixedKeys;
    return std::tuple_cat(
        CommonKeys::fields(),
        std::tuple{field("do_center_crop", &K::do_center_crop, "Whether the middle is cut out."),
                   field("crop_size", &K::crop_size, "Its height and width."),
                   field("do_pad", &K::do_pad, "LLaVA's own: whether pictures are made squares first.")});
  }
};

FixedKeys defaults_of(const std::string& type) {
  FixedKeys keys;
  if (type == "SiglipImageProcessor") {
    keys.image_mean = keys.image_std = numbers(0.5, 0.5, 0.5);
    keys.size = sizes({{"height", 224}, {"width", 224}});
    return keys;
  }
  keys.image_mean = numbers(0.48145466, 0.4578275, 0.40821073);
  keys.image_std = numbers(0.26862954, 0.26130258, 0.27577711);
  keys.size = sizes({{"shortest_edge", 224}});
  keys.crop_size = sizes({{"height", 224}, {"width", 224}});
  keys.do_center_crop = true;
  return keys;
}

class Fixed final : public Processor {
 public:
  Fixed(const std::string& type, const FixedKeys& keys, Problems& problems) : type_(type) {
    common_ = resolve(keys, problems);
    if (keys.do_resize) check_size(common_.size, problems);
    if (keys.do_center_crop) {
      const Size crop = read_size(keys.crop_size, "crop_size", true, problems);
      problems.require(crop.height && crop.width, "crop_size", "expected height and width");
      crop_ = Extent{crop.height.value_or(1), crop.width.value_or(1)};
    }
    problems.require(!keys.do_pad || type == "LlavaImageProcessor", "do_pad",
                     fmt::format("got true, expected false: {} pads batches", type));
    if (keys.do_pad) pad_with(keys, problems);
  }

  std::string_view type() const override { return type_; }

  Layout layout(const Extent& upright) const override {
    const Steps steps = steps_for(upright);
    return {.shape = {1, 3, steps.result.height, steps.result.width}};
  }

  Values process(const Picture& picture) const override {
    if (padding_ && picture.height() != picture.width()) return process_square(squared(picture));
    return process_square(picture);
  }

 private:
  // How a picture becomes one of the tower's size: resized, of which a window is laid at a place of the result.
  struct Steps {
    Extent full, result;
    Window window;
    std::int64_t top = 0, left = 0;
  };

  void pad_with(const FixedKeys& keys, Problems& problems) {
    std::vector<double> mean;
    config::Values<std::vector<double>>::read(keys.image_mean.node, mean, {problems, "image_mean"});
    problems.require(mean.size() == 3, "image_mean", "expected three numbers, which do_pad pads with");
    padding_.emplace();
    for (std::size_t i = 0; i < 3 && i < mean.size(); ++i)
      (*padding_)[i] = static_cast<std::uint8_t>(std::clamp(mean[i] * 255, 0.0, 255.0));
  }

  // Where what is wanted of a side begins: in the resized one, or, where that is shorter, in the result.
  static void cut(std::int64_t full, std::int64_t wanted, std::int64_t& begin, std::int64_t& length,
                  std::int64_t& place) {
    length = std::min(full, wanted);
    begin = (full - length) / 2;
    place = (wanted - length) / 2;
  }

  Steps steps_for(Extent extent) const {
    if (padding_) {
      const std::int64_t side = std::max(extent.height, extent.width);
      check_resized(extent, {side, side}, {0, 0, side, side});
      extent = {side, side};
    }
    Steps steps;
    steps.full = common_.filter ? resized(common_.size, extent) : extent;
    steps.result = crop_ ? *crop_ : steps.full;
    cut(steps.full.height, steps.result.height, steps.window.top, steps.window.height, steps.top);
    cut(steps.full.width, steps.result.width, steps.window.left, steps.window.width, steps.left);
    check_resized(extent, steps.full, {0, 0, steps.result.height, steps.result.width});
    return steps;
  }

  Picture squared(const Picture& picture) const {
    const std::int64_t side = std::max(picture.height(), picture.width());
    Picture square({side, side});
    for (std::int64_t y = 0; y < side; ++y)
      for (std::int64_t x = 0; x < side; ++x) std::memcpy(square.row(y) + x * 3, padding_->data(), 3);
    const std::int64_t top = (side - picture.height()) / 2, left = (side - picture.width()) / 2;
    for (std::int64_t y = 0; y < picture.height(); ++y)
      std::memcpy(square.row(top + y) + left * 3, picture.row(y), static_cast<std::size_t>(picture.width()) * 3);
    return square;
  }

  Values process_square(const Picture& picture) const {
    const Steps steps = steps_for(picture.extent());
    Picture part = resize(picture, steps.full, common_.filter.value_or(Filter::nearest), steps.window);
    if (part.extent() != steps.result) {
      Picture laid(steps.result);
      std::fill_n(laid.row(0), laid.extent().pixels() * 3, std::uint8_t{0});
      for (std::int64_t y = 0; y < part.height(); ++y)
        std::memcpy(laid.row(steps.top + y) + steps.left * 3, part.row(y), static_cast<std::size_t>(part.width()) * 3);
      part = std::move(laid);
    }
    Values made{layout(picture.extent()), std::vector<float>(static_cast<std::size_t>(part.extent().pixels()) * 3)};
    write_planes(common_, part, made.values.data());
    return made;
  }

  std::string type_;
  Common common_;
  std::optional<Extent> crop_;
  std::optional<std::array<std::uint8_t, 3>> padding_;
};

}  // namespace

std::unique_ptr<const Processor> make_fixed(const std::string& type, const config::Node& keys, Problems& problems) {
  return std::make_unique<Fixed>(type, read_keys(keys, problems, defaults_of(type)), problems);
}

}  // namespace hone::images
