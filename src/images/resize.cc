// Two passes, along the rows and then along the columns, each of which rounds to bytes.
#include "images/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "hone/error.h"
#include "images/taps.h"

// One function for every x86-64 CPU and one for those of the last ten years, chosen as the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define HONE_FOR_CPUS __attribute__((target_clones("avx2", "default")))
#else
#define HONE_FOR_CPUS
#endif

namespace hone::images {
namespace {

constexpr int kLane = 48;  // numbers that are computed side by side: sixteen rows of a column's three colours
constexpr int kRows = kLane / 3;

// So many weights times bytes that lie `step` apart, for each of the lane's numbers.
HONE_FOR_CPUS void add_up(const std::uint8_t* from, std::ptrdiff_t step, const std::int16_t* weights, int count,
                          int precision, std::uint8_t* to) {
  std::int32_t sums[kLane];
  for (int i = 0; i < kLane; ++i) sums[i] = 1 << (precision - 1);
  for (int tap = 0; tap < count; ++tap, from += step) {
    const std::int16_t weight = weights[tap];
    for (int i = 0; i < kLane; ++i) sums[i] += static_cast<std::int16_t>(from[i]) * weight;
  }
  for (int i = 0; i < kLane; ++i) to[i] = static_cast<std::uint8_t>(std::clamp(sums[i] >> precision, 0, 255));
}

// Rows whose length is a multiple of kLane.
struct Rows {
  Rows(std::int64_t count, std::int64_t width)
      : step((width * 3 + kLane - 1) / kLane * kLane), values(static_cast<std::size_t>(count * step)) {}
  std::uint8_t* row(std::int64_t y) { return values.data() + y * step; }
  const std::uint8_t* row(std::int64_t y) const { return values.data() + y * step; }
  std::int64_t step;
  std::vector<std::uint8_t> values;
};

// The part of a line that the weights look at.
Taps reach(const Weights& weights) {
  std::int64_t first = weights.taps[0].first, end = first;
  for (const Taps& taps : weights.taps) {
    first = std::min(first, taps.first);
    end = std::max(end, taps.first + taps.count);
  }
  return {first, static_cast<int>(end - first)};
}

// Sixteen rows at a time, turned so that what is multiplied by one weight lies side by side.
void along_rows(const Picture& picture, std::int64_t top, std::int64_t count, const Weights& weights, Rows& to) {
  const Taps part = reach(weights);
  std::vector<std::uint8_t> turned(static_cast<std::size_t>(part.count) * kLane);
  std::uint8_t lane[kLane];
  for (std::int64_t y = 0; y < count; y += kRows) {
    const int rows = static_cast<int>(std::min<std::int64_t>(kRows, count - y));
    for (int r = 0; r < rows; ++r) {
      const std::uint8_t* from = picture.row(top + y + r) + part.first * 3;
      for (std::int64_t i = 0; i < std::int64_t{part.count} * 3; ++i) turned[i * kRows + r] = from[i];
    }
    for (std::size_t x = 0; x < weights.taps.size(); ++x) {
      const Taps& taps = weights.taps[x];
      add_up(turned.data() + (taps.first - part.first) * kLane, kLane, weights.of(x), taps.count, weights.precision,
             lane);
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < 3; ++c) to.row(y + r)[x * 3 + c] = lane[c * kRows + r];
    }
  }
}

// top: the picture's row that is the first of `from`.
void along_columns(const Rows& from, std::int64_t top, const Weights& weights, Picture& to) {
  const std::int64_t bytes = to.width() * 3;
  std::uint8_t lane[kLane];
  for (std::int64_t y = 0; y < to.height(); ++y) {
    const Taps& taps = weights.taps[y];
    for (std::int64_t x = 0; x < bytes; x += kLane) {
      add_up(from.row(taps.first - top) + x, from.step, weights.of(y), taps.count, weights.precision, lane);
      std::copy_n(lane, std::min<std::int64_t>(kLane, bytes - x), to.row(y) + x);
    }
  }
}

// A side that stays as long as it is has no pass.
Picture resize_by(const Picture& picture, const Extent& full, Filter filter, const Window& window) {
  Picture made({window.height, window.width});
  Weights vertical;
  Taps rows{window.top, static_cast<int>(window.height)};
  const bool along = full.width != picture.width(), down = full.height != picture.height();
  if (down) {
    vertical = weights_of(picture.height(), full.height, window.top, window.height, filter);
    rows = reach(vertical);
  }
  Rows between(rows.count, window.width);
  if (along)
    along_rows(picture, rows.first, rows.count,
               weights_of(picture.width(), full.width, window.left, window.width, filter), between);
  for (std::int64_t y = 0; !along && y < rows.count; ++y)
    std::copy_n(picture.row(rows.first + y) + window.left * 3, window.width * 3, between.row(y));
  if (down) along_columns(between, rows.first, vertical, made);
  for (std::int64_t y = 0; !down && y < window.height; ++y) std::copy_n(between.row(y), window.width * 3, made.row(y));
  return made;
}

std::vector<std::int64_t> nearest_pixels(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t count) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  std::vector<std::int64_t> pixels(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto pixel = static_cast<std::int64_t>(std::floor((static_cast<float>(begin + i) + 0.5f) * scale));
    pixels[i] = std::min(pixel, from - 1);
  }
  return pixels;
}

Picture resize_to_nearest(const Picture& picture, const Extent& full, const Window& window) {
  Picture made({window.height, window.width});
  const auto rows = nearest_pixels(picture.height(), full.height, window.top, window.height);
  const auto columns = nearest_pixels(picture.width(), full.width, window.left, window.width);
  for (std::int64_t y = 0; y < window.height; ++y)
    for (std::int64_t x = 0; x < window.width; ++x)
      std::memcpy(made.row(y) + x * 3, picture.row(rows[y]) + columns[x] * 3, 3);
  return made;
}

}  // namespace

Picture resize(const Picture& picture, const Extent& full, Filter filter, const Window& window) {
  HONE_ASSERT(window.top >= 0 && window.left >= 0 && window.height > 0 && window.width > 0 &&
              window.top + window.height <= full.height && window.left + window.width <= full.width);
  if (filter == Filter::nearest) return resize_to_nearest(picture, full, window);
  return resize_by(picture, full, filter, window);
}

Picture resize(const Picture& picture, const Extent& full, Filter filter) {
  return resize(picture, full, filter, {0, 0, full.height, full.width});
}

void check_resized(const Extent& picture, const Extent& to, const Window& window) {
  if (to.height <= kMaxResizedSide && to.width <= kMaxResizedSide && window.height * window.width <= kMaxPixels) return;
  throw Error(ErrorKind::data,
              fmt::format("a picture of {} x {} pixels would be resized to {} x {}; expected at most "
                          "{} on a side and {} pixels",
                          picture.width, picture.height, to.width, to.height, kMaxResizedSide, kMaxPixels))
      .hint("cut it: it is too narrow");
}

}  // namespace hone::images
