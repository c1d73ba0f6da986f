// Rotary frequencies of every type, in transformers 5's order of operations.
#include "nn/rope.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <cmath>
#include <numbers>

#include "hone/error.h"

namespace hone::nn {
namespace {

using at::Tensor;

// theta^(2i / size), i = 0 .. size/2 - 1.
Tensor powers(double theta, std::int64_t size) {
  return at::pow(at::Scalar(theta), at::arange(0, size, 2, at::kFloat) / size);
}

Tensor standard(double theta, std::int64_t size) { return powers(theta, size).reciprocal(); }

// The base grows with the length (transformers computes it as an fp32 tensor).
Tensor dynamic(const RopeConfig& c, std::int64_t size, std::int64_t max_positions, std::int64_t length) {
  const Tensor ratio =
      at::scalar_tensor(static_cast<double>(length), at::kFloat) * *c.factor / max_positions - (*c.factor - 1);
  const Tensor theta = ratio.pow(static_cast<double>(size) / static_cast<double>(size - 2)) * c.rope_theta;
  return at::pow(theta, at::arange(0, size, 2, at::kFloat) / size).reciprocal();
}

Tensor llama3(const RopeConfig& c, std::int64_t size, double original) {
  const double low = *c.low_freq_factor, high = *c.high_freq_factor;
  const Tensor inv = standard(c.rope_theta, size), wavelength = 2 * std::numbers::pi / inv;
  const Tensor divided = at::where(wavelength > original / low, inv / *c.factor, inv);
  const Tensor smooth = (original / wavelength - low) / (high - low);
  const Tensor between = (1 - smooth) * divided / *c.factor + smooth * divided;
  const Tensor is_between = (wavelength < original / high).logical_not() & (wavelength > original / low).logical_not();
  return at::where(is_between, between, divided);
}

Tensor yarn(const RopeConfig& c, std::int64_t size, double original, double factor) {
  const double fast = c.beta_fast.value_or(0) != 0 ? *c.beta_fast : 32,
               slow = c.beta_slow.value_or(0) != 0 ? *c.beta_slow : 1;
  const auto dimension = [&](double rotations) {
    return static_cast<double>(size) * std::log(original / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(c.rope_theta));
  };
  double low = dimension(fast), high = dimension(slow);
  if (c.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(size - 1));
  if (low == high) high += 0.001;
  const Tensor ramp = ((at::arange(0, size / 2, at::kFloat) - low) / (high - low)).clamp(0, 1);
  const Tensor powered = powers(c.rope_theta, size), kept = 1 - ramp;
  return (factor * powered).reciprocal() * (1 - kept) + powered.reciprocal() * kept;
}

Tensor longrope(const RopeConfig& c, std::int64_t size, bool beyond) {
  const std::vector<double>& divisors = beyond ? c.long_factor : c.short_factor;
  const Tensor extra = at::tensor(divisors, at::kDouble).to(at::kFloat);
  return (extra * powers(c.rope_theta, size)).reciprocal();
}

// The frequencies of the whole head, of which the last pairs get 0.
Tensor proportional(const RopeConfig& c, std::int64_t size) {
  const auto pairs = static_cast<std::int64_t>(std::floor(c.partial_rotary_factor * static_cast<double>(size) / 2));
  Tensor inv = standard(c.rope_theta, size);
  inv.narrow(0, pairs, size / 2 - pairs).zero_();
  return inv / c.factor.value_or(1);
}

double yarn_attention_factor(const RopeConfig& c, double factor) {
  const auto scale = [&](double m) { return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; };
  if (c.attention_factor) return *c.attention_factor;
  if (c.mscale.value_or(0) != 0 && c.mscale_all_dim.value_or(0) != 0)
    return scale(*c.mscale) / scale(*c.mscale_all_dim);
  return scale(1);
}

double longrope_attention_factor(const RopeConfig& c, double factor, double original) {
  if (c.attention_factor) return *c.attention_factor;
  return factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
}

}  // namespace

Rope::Rope(RopeConfig config, std::int64_t head_size, std::int64_t max_positions)
    : config_(std::move(config)),
      head_size_(head_size),
      max_positions_(max_positions),
      original_(config_.original_max_position_embeddings.value_or(max_positions)) {
  HONE_ASSERT(head_size % 2 == 0);
  const double by_length = static_cast<double>(max_positions) / static_cast<double>(original_);
  if (config_.rope_type == RopeType::yarn)
    attention_factor_ = yarn_attention_factor(config_, config_.factor.value_or(by_length));
  if (config_.rope_type == RopeType::longrope)
    attention_factor_ =
        longrope_attention_factor(config_, config_.factor.value_or(by_length), static_cast<double>(original_));
}

std::int64_t Rope::length_class(std::int64_t length) const {
  if (config_.rope_type == RopeType::dynamic) return length > max_positions_ ? length : 0;
  if (config_.rope_type == RopeType::longrope) return length > original_ ? 1 : 0;
  return 0;
}

Tensor Rope::frequencies(std::int64_t length_class) const {
  const double original = static_cast<double>(original_);
  switch (config_.rope_type) {
    case RopeType::standard:
      return standard(config_.rope_theta, head_size_);
    case RopeType::linear:
      return standard(config_.rope_theta, head_size_) / *config_.factor;
    case RopeType::dynamic:
      return length_class == 0 ? standard(config_.rope_theta, head_size_)
                               : dynamic(config_, head_size_, max_positions_, length_class);
    case RopeType::llama3:
      return llama3(config_, head_size_, original);
    case RopeType::yarn:
      return yarn(config_, head_size_, original,
                  config_.factor.value_or(static_cast<double>(max_positions_) / original));
    case RopeType::longrope:
      return longrope(config_, head_size_, length_class != 0);
    case RopeType::proportional:
      return proportional(config_, head_size_);
  }
  throw Error(ErrorKind::bug, "unknown rope type");
}

Tensor Rope::angles(std::int64_t begin, std::int64_t end, std::int64_t length_class) const {
  return at::outer(at::arange(begin, end, at::kFloat), frequencies(length_class));
}

ops::RopeTable Rope::table(const Tensor& angles, const Tensor& like) const {
  const auto made = [&](const Tensor& x) {
    return (x * attention_factor_).to(like.device(), at::toOpMathType(like.scalar_type())).contiguous();
  };
  return {made(angles.cos()), made(angles.sin()), {}};
}

const ops::RopeTable& Rope::kept_table(std::int64_t end, const Tensor& like) const {
  const bool fits = kept_.cos.defined() && kept_.cos.device() == like.device() &&
                    kept_.cos.scalar_type() == at::toOpMathType(like.scalar_type()) && kept_.cos.size(0) >= end;
  if (!fits) kept_ = table(angles(0, end, 0), like);
  return kept_;
}

}  // namespace hone::nn
