// Qwen2-VL's processor, which Qwen2.5-VL, Qwen3-VL and others have, too: pictures keep about their shape and become
// rows of patches, those together that the model merges into one token. GLM-4.1V's is much the same: it counts the
// pixels of all pictures that a patch repeats, and widens what is smaller than a token first.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hone/error.h"
#include "images/keys.h"
#include "images/processors.h"

namespace hone::images {
namespace {

constexpr config::Range kPatch{.low = 1, .high = 256};
constexpr double kMostLong = 200;  // times as long as it is wide

struct QwenKeys : CommonKeys {
  using Base = CommonKeys;
  std::optional<std::int64_t> min_pixels, max_pixels;
  std::int64_t patch_size = 14, temporal_patch_size = 2, merge_size = 2;

  static constexpr auto fields() {
    using K = QwenKeys;
    return std::tuple_cat(
        CommonKeys::fields(),
        std::tuple{field("min_pixels", &K::min_pixels, "Before size had shortest_edge.", kSide),
                   field("max_pixels", &K::max_pixels, "Before size had longest_edge.", kSide),
                   field("patch_size", &K::patch_size, "Pixels on a side of a patch.", kPatch),
                   field("temporal_patch_size", &K::temporal_patch_size, "Pictures of a film in a patch.", kPatch),
                   field("merge_size", &K::merge_size, "Patches on a side of what becomes a token.", kPatch)});
  }
};

QwenKeys qwen_defaults() {
  QwenKeys keys;
  keys.image_mean = numbers(0.48145466, 0.4578275, 0.40821073);
  keys.image_std = numbers(0.26862954, 0.26130258, 0.27577711);
  keys.size = sizes({{"shortest_edge", 56 * 56}, {"longest_edge", 28 * 28 * 1280}});
  return keys;
}

QwenKeys glm_defaults() {
  QwenKeys keys = qwen_defaults();
  keys.size = sizes({{"shortest_edge", 112 * 112}, {"longest_edge", 28 * 28 * 15000}});
  return keys;
}

bool is_of_glm(const std::string& type) { return type.starts_with("Glm"); }

std::int64_t whole(double value) { return static_cast<std::int64_t>(value); }

class Qwen2Vl final : public Processor {
 public:
  Qwen2Vl(const std::string& type, const QwenKeys& keys, Problems& problems)
      : type_(type),
        is_glm_(is_of_glm(type)),
        patch_(keys.patch_size),
        frames_(keys.temporal_patch_size),
        merge_(keys.merge_size) {
    common_ = resolve(keys, problems);
    const Size& size = common_.size;
    const auto first = [](auto... choices) {
      std::optional<std::int64_t> made;
      ((made = made ? made : choices), ...);
      return made;
    };
    const auto least = first(keys.min_pixels, size.shortest_edge, size.min_pixels);
    const auto most = first(keys.max_pixels, size.longest_edge, size.max_pixels);
    problems.require(
        !keys.do_resize || (least && most && !size.height && !size.width && !size.max_height && !size.max_width),
        "size",
        "expected shortest_edge and longest_edge, the pixels that a picture has at least and at "
        "most");
    min_pixels_ = static_cast<double>(least.value_or(1));
    max_pixels_ = static_cast<double>(most.value_or(1));
  }

  std::string_view type() const override { return type_; }

  Layout layout(const Extent& upright) const override {
    const Extent full = full_for(upright);
    Layout made;
    made.grid = {1, full.height / patch_, full.width / patch_};
    made.shape = {made.grid[1] * made.grid[2], 3 * frames_ * patch_ * patch_};
    made.tokens = made.shape[0] / (merge_ * merge_);
    return made;
  }

  Values process(const Picture& picture) const override {
    const Extent full = full_for(picture.extent());
    Values made{layout(picture.extent()), {}};
    made.values.resize(static_cast<std::size_t>(made.layout.shape[0] * made.layout.shape[1]));
    if (full == picture.extent())
      write_patches(picture, made);
    else
      write_patches(resize(picture, full, *common_.filter), made);
    return made;
  }

 private:
  // Sides that are multiples of what becomes a token, of about the picture's shape, with as many pixels as is allowed.
  Extent full_for(const Extent& picture) const {
    const std::int64_t unit = patch_ * merge_;
    if (!common_.filter) {
      if (picture.height % unit == 0 && picture.width % unit == 0) return picture;
      throw Error(ErrorKind::data, fmt::format("got a picture of {} x {} pixels, expected multiples of {}: "
                                               "do_resize is false",
                                               picture.width, picture.height, unit));
    }
    const auto u = static_cast<double>(unit);
    auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
    if (is_glm_ && std::min(height, width) < u) {
      const double by = std::max(u / height, u / width);
      height = std::trunc(height * by), width = std::trunc(width * by);
    }
    if (std::max(height, width) / std::min(height, width) > kMostLong)
      throw Error(ErrorKind::data, fmt::format("got a picture of {} x {} pixels, expected one at most {} times as long "
                                               "as wide",
                                               picture.width, picture.height, kMostLong));
    const double frames = is_glm_ ? static_cast<double>(frames_) : 1;
    Extent full{whole(std::nearbyint(height / u)) * unit, whole(std::nearbyint(width / u)) * unit};
    const double pixels = frames * static_cast<double>(full.pixels());
    if (pixels > max_pixels_) {
      const double by = std::sqrt(frames * height * width / max_pixels_);
      full.height = std::max(unit, whole(std::floor(height / by / u)) * unit);
      full.width = std::max(unit, whole(std::floor(width / by / u)) * unit);
    } else if (pixels < min_pixels_) {
      const double by = std::sqrt(min_pixels_ / (frames * height * width));
      full.height = whole(std::ceil(height * by / u)) * unit;
      full.width = whole(std::ceil(width * by / u)) * unit;
    }
    check_resized(picture, full, {0, 0, full.height, full.width});
    return full;
  }

  // Numbers of a patch: for each colour so many pictures of a film, all the same, row by row.
  float* write_patch(const Picture& picture, std::int64_t top, std::int64_t left, float* to) const {
    const std::int64_t size = patch_ * patch_;
    for (int colour = 0; colour < 3; ++colour) {
      float* frame = to;
      for (std::int64_t y = 0; y < patch_; ++y) {
        const std::uint8_t* row = picture.row(top + y) + left * 3 + colour;
        for (std::int64_t x = 0; x < patch_; ++x) *to++ = common_.numbers[colour][row[x * 3]];
      }
      for (std::int64_t copy = 1; copy < frames_; ++copy, to += size)
        std::memcpy(to, frame, static_cast<std::size_t>(size) * sizeof(float));
    }
    return to;
  }

  void write_patches(const Picture& picture, Values& made) const {
    const std::int64_t unit = patch_ * merge_;
    float* to = made.values.data();
    for (std::int64_t top = 0; top < picture.height(); top += unit)
      for (std::int64_t left = 0; left < picture.width(); left += unit)
        for (std::int64_t part = 0; part < merge_ * merge_; ++part)
          to = write_patch(picture, top + part / merge_ * patch_, left + part % merge_ * patch_, to);
  }

  std::string type_;
  bool is_glm_;
  std::int64_t patch_, frames_, merge_;
  double min_pixels_ = 1, max_pixels_ = 1;
  Common common_;
};

}  // namespace

std::unique_ptr<const Processor> make_qwen2_vl(const std::string& type, const config::Node& keys, Problems& problems) {
  const QwenKeys defaults = is_of_glm(type) ? glm_defaults() : qwen_defaults();
  return std::make_unique<Qwen2Vl>(type, read_keys(keys, problems, defaults), problems);
}

}  // namespace hone::images
