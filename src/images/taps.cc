// A filter's weights, as ATen's upsampling of bytes with antialias has them: doubles, rounded to whole numbers of
// sixteen bits.
#include "images/taps.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hone/error.h"

namespace hone::images {
namespace {

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

// Keys' cubic with a = -1/2.
double cubic(double x) {
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((x - 5) * x + 8) * x * a - 4 * a;
  return 0;
}

double weight_at(Filter filter, double x) {
  x = std::abs(x);
  if (filter == Filter::bilinear) return x < 1 ? 1 - x : 0;
  if (filter == Filter::bicubic) return cubic(x);
  return x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

double half_width(Filter filter) {
  HONE_ASSERT(filter != Filter::nearest);
  return filter == Filter::bilinear ? 1 : filter == Filter::bicubic ? 2 : 3;
}

class Line {
 public:
  Line(std::int64_t from, std::int64_t to, Filter filter)
      : from_(from), filter_(filter), scale_(static_cast<double>(from) / static_cast<double>(to)) {
    support_ = half_width(filter) * std::max(scale_, 1.0);
    stride_ = static_cast<int>(std::ceil(support_)) * 2 + 1;
  }
  int stride() const { return stride_; }

  // Writes stride() weights; returns the largest one, at least 0.
  double fill(std::int64_t pixel, Taps& taps, double* weights) const {
    const double centre = scale_ * (static_cast<double>(pixel) + 0.5);
    const double inverse = scale_ >= 1 ? 1 / scale_ : 1;
    taps.first = std::max<std::int64_t>(static_cast<std::int64_t>(centre - support_ + 0.5), 0);
    const std::int64_t end = std::min(static_cast<std::int64_t>(centre + support_ + 0.5), from_);
    taps.count = static_cast<int>(std::clamp<std::int64_t>(end - taps.first, 0, stride_));
    double sum = 0, most = 0;
    for (int i = 0; i < taps.count; ++i) {
      weights[i] = weight_at(filter_, (static_cast<double>(i + taps.first) - centre + 0.5) * inverse);
      sum += weights[i];
    }
    for (int i = 0; i < taps.count; ++i) {
      if (sum != 0) weights[i] /= sum;
      most = std::max(most, weights[i]);
    }
    std::fill(weights + taps.count, weights + stride_, 0.0);
    return most;
  }

 private:
  std::int64_t from_;
  Filter filter_;
  double scale_, support_;
  int stride_;
};

// As many bits as let the largest weight of the whole line be a number of sixteen bits with its sign.
int precision_for(double most) {
  int bits = 0;
  while (bits < 22 && static_cast<int>(0.5 + most * (1 << (bits + 1))) < (1 << 15)) ++bits;
  return bits;
}

std::int16_t rounded(double value) { return static_cast<std::int16_t>(value < 0 ? value - 0.5 : value + 0.5); }

}  // namespace

Weights weights_of(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t count, Filter filter) {
  const Line line(from, to, filter);
  const auto pixels = static_cast<std::size_t>(count), stride = static_cast<std::size_t>(line.stride());
  Weights made{std::vector<Taps>(pixels), std::vector<std::int16_t>(pixels * stride), line.stride()};
  std::vector<double> weights(stride);
  double most = 0;
  Taps ignored;
  for (std::int64_t i = 0; i < to; ++i) most = std::max(most, line.fill(i, ignored, weights.data()));
  made.precision = precision_for(most);
  for (std::size_t i = 0; i < pixels; ++i) {
    line.fill(begin + static_cast<std::int64_t>(i), made.taps[i], weights.data());
    for (std::size_t tap = 0; tap < stride; ++tap)
      made.values[i * stride + tap] = rounded(weights[tap] * (1 << made.precision));
  }
  return made;
}

}  // namespace hone::images
