// A score q k + slope * place is the product of longer heads: (q, slope) (k, place). What the query's own place would
// add is alike for all its keys, so that softmax takes it away. Places and slopes are written as sums of numbers that
// bf16 has exactly.
#include "nn/alibi.h"

#include <ATen/ATen.h>

#include <cmath>

#include "hone/error.h"
#include "nn/plan.h"
#include "tensor/device.h"

namespace hone::nn {
namespace {

constexpr std::int64_t kParts = 3;        // of a slope: bf16 has 8 bits, and fp32 24
constexpr std::int64_t kLow = 256;        // a place is kLow times a number, and one below kLow
constexpr std::int64_t kMultiple = 8;     // of which heads are that kernels like
constexpr const char* kPlaces = "alibi";  // of what a pass keeps for its layers

std::int64_t columns(std::int64_t head_size) { return Alibi::kept_size(head_size) - head_size; }

// [1, N, C] of tokens: kParts times a place's high part, as often the low one, zeros.
Tensor places(const Tensor& like, std::int64_t count, Pass& pass) {
  const Tensor place_1N1 = pass.plan().to_flat(positions(pass).unsqueeze(-1));
  const Tensor high = place_1N1.div(kLow, "floor"), low = place_1N1 - high * kLow;
  const std::int64_t tokens = place_1N1.size(1);
  return at::cat({high.expand({1, tokens, kParts}), low.expand({1, tokens, kParts}),
                  at::zeros({1, tokens, count - 2 * kParts}, place_1N1.options())},
                 -1)
      .to(like.scalar_type());
}

}  // namespace

std::vector<double> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes;
  for (std::int64_t i = 1; i <= power; ++i) slopes.push_back(std::exp2(-8.0 * double(i) / double(power)));
  for (std::int64_t i = 1; std::ssize(slopes) < heads; i += 2)
    slopes.push_back(std::exp2(-4.0 * double(i) / double(power)));
  return slopes;
}

std::int64_t Alibi::kept_size(std::int64_t head_size) {
  return (head_size + 2 * kParts + kMultiple - 1) / kMultiple * kMultiple;
}

// Over the scale, for a score's products are multiplied by it.
Tensor Alibi::of_queries(const Tensor& like, double scale, std::int64_t count) const {
  const bool there = kept_1HC_.defined() && kept_1HC_.device() == like.device() &&
                     kept_1HC_.scalar_type() == like.scalar_type() && kept_1HC_.size(2) == count;
  if (there) return kept_1HC_;
  const at::ScalarType type = like.scalar_type();
  Tensor rest_H = at::tensor(slopes_, at::kDouble).mul(double(kLow) / scale);
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < kParts; ++i) {
    parts.push_back(rest_H.to(type).to(at::kDouble));
    rest_H = rest_H - parts.back();
  }
  const Tensor high_HC = at::stack(parts, -1), zeros_HC = at::zeros({high_HC.size(0), count - 2 * kParts}, at::kDouble);
  const Tensor made_HC = at::cat({high_HC, high_HC / double(kLow), zeros_HC}, -1).to(type);
  kept_1HC_ = devices::sent(made_HC.unsqueeze(0).contiguous(), like.device());
  return kept_1HC_;
}

Tensor Alibi::attend(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass,
                     const ops::AttentionOptions& options) const {
  HONE_ASSERT(options.scale > 0 && options.soft_cap == 0 && options.mask.kind == ops::Mask::Kind::causal);
  HONE_ASSERT(q_NHK.size(1) == std::ssize(slopes_));
  const std::int64_t tokens = q_NHK.size(0), size = q_NHK.size(2), count = columns(size);
  Tensor& place_1NC = pass.plan().left()[kPlaces];
  if (!place_1NC.defined() || place_1NC.size(2) != count) place_1NC = places(q_NHK, count, pass);
  const Tensor q = at::cat({q_NHK, of_queries(q_NHK, options.scale, count).expand({tokens, -1, -1})}, -1);
  const Tensor k = at::cat({k_NGK, place_1NC.transpose(0, 1).expand({-1, k_NGK.size(1), -1})}, -1);
  return nn::attend(q, k, at::constant_pad_nd(v_NGK, {0, count}), pass, options).narrow(-1, 0, size);
}

}  // namespace hone::nn
