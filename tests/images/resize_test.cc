// Resizing: torchvision's bytes for each filter, larger and smaller, whole and in part.
#include "images/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "harness/errors.h"
#include "images/goldens.h"

namespace hone::images {
namespace {

constexpr std::pair<const char*, Filter> kFilters[] = {{"nearest", Filter::nearest},
                                                       {"lanczos", Filter::lanczos},
                                                       {"bilinear", Filter::bilinear},
                                                       {"bicubic", Filter::bicubic}};

TEST(Resize, GivesTorchvisionsBytes) {
  const Picture picture = decode(picture_file("rgb.png"));
  const Safetensors golden(images_golden("resized.safetensors"));
  ASSERT_EQ(golden.tensors().size(), 20u);
  for (const TensorInfo& tensor : golden.tensors()) {
    SCOPED_TRACE(tensor.name);
    const auto* filter = std::find_if(std::begin(kFilters), std::end(kFilters),
                                      [&](const auto& known) { return tensor.name.starts_with(known.first); });
    ASSERT_NE(filter, std::end(kFilters));
    expect_picture(resize(picture, {tensor.shape[0], tensor.shape[1]}, filter->second), tensor.shape,
                   values_of<std::uint8_t>(golden, tensor));
  }
}

Picture random_picture(const Extent& extent, std::uint32_t seed) {
  Picture picture(extent);
  std::mt19937 random(seed);
  std::generate_n(picture.row(0), extent.pixels() * 3, [&] { return static_cast<std::uint8_t>(random()); });
  return picture;
}

TEST(Resize, OfAPartGivesThatPartOfTheWhole) {
  const Picture picture = random_picture({37, 53}, 1);
  for (const auto& [name, filter] : kFilters)
    for (const Extent& full : {Extent{37, 53}, Extent{20, 90}, Extent{80, 20}, Extent{37, 11}, Extent{50, 53}}) {
      SCOPED_TRACE(name);
      const Picture whole = resize(picture, full, filter);
      const Window window{full.height / 3, full.width / 4, full.height / 2, full.width / 2};
      const Picture part = resize(picture, full, filter, window);
      ASSERT_EQ(part.extent(), (Extent{window.height, window.width}));
      for (std::int64_t y = 0; y < window.height; ++y)
        EXPECT_TRUE(
            std::equal(part.row(y), part.row(y) + window.width * 3, whole.row(window.top + y) + window.left * 3))
            << "row " << y;
    }
}

TEST(Resize, LeavesAPlainColourAsItIs) {
  for (const auto& [name, filter] : kFilters)
    for (const Extent& full : {Extent{1, 1}, Extent{3, 200}, Extent{200, 3}, Extent{64, 64}})
      for (const int colour : {0, 1, 127, 254, 255}) {
        Picture plain({50, 70});
        std::fill_n(plain.row(0), 50 * 70 * 3, static_cast<std::uint8_t>(colour));
        const Picture made = resize(plain, full, filter);
        EXPECT_TRUE(std::all_of(made.row(0), made.row(0) + full.pixels() * 3,
                                [&](std::uint8_t value) { return value == colour; }))
            << name << ", " << full.height << " x " << full.width << ", colour " << colour;
      }
}

TEST(Resize, RefusesWhatBecomesTooLarge) {
  EXPECT_HONE_ERROR(check_resized({1, 65535}, {336, 22'019'760}, {0, 0, 336, 336}), data,
                    "a picture of 65535 x 1 pixels would be resized to 22019760 x 336");
  EXPECT_HONE_ERROR(check_resized({9, 9}, {10'000, 10'000}, {0, 0, 10'000, 10'000}), data, "89478485 pixels");
  EXPECT_NO_THROW(check_resized({9, 9}, {1'000'000, 1'000'000}, {0, 0, 336, 336}));
}

}  // namespace
}  // namespace hone::images
