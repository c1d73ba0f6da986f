// Attention between spans, and with a bias by distance, against what it means in plain ATen with autograd's gradients.
#include "ops/attention_between.h"

#include "ops/attention.h"
#include "ops/check.h"
#include "ops/relative_bias.h"

namespace hone::ops::test {
namespace {

const std::vector<SpanPair> kPairs = {{{0, 3}, {2, 9}}, {{3, 4}, {0, 2}}, {{5, 11}, {2, 9}}};  // two read the same keys
constexpr std::int64_t kQueries = 12, kKeys = 10, kDistances = 25, kZero = 12;

// Each query's score with each key, one after the other.
Tensor meaning(const std::vector<Tensor>& in, const std::vector<SpanPair>& pairs, const AttentionOptions& o) {
  const Tensor &q = in[0], &k = in[1], &v = in[2];
  const std::int64_t heads = q.size(1), each = heads / k.size(1);
  std::vector<Tensor> rows(static_cast<std::size_t>(q.size(0)), at::zeros({heads, q.size(2)}, q.options()));
  for (const SpanPair& pair : pairs)
    for (std::int64_t i = pair.queries.begin; i < pair.queries.end; ++i) {
      const std::int64_t place = pair.keys.end - (pair.queries.end - i);  // it stands at the last of the keys
      std::vector<Tensor> of_heads;
      for (std::int64_t h = 0; h < heads; ++h) {
        std::vector<Tensor> scores, values;
        for (std::int64_t j = pair.keys.begin; j < pair.keys.end; ++j) {
          if (o.mask.kind == Mask::Kind::causal && j > place) continue;
          Tensor score = (q[i][h] * k[j][h / each]).sum() * o.scale;
          if (in.size() > 3) score = score + in[3][h][kZero + j - place];
          scores.push_back(score), values.push_back(v[j][h / each]);
        }
        const Tensor weights = at::stack(scores).softmax(0);
        of_heads.push_back((weights.unsqueeze(1) * at::stack(values)).sum(0));
      }
      rows[static_cast<std::size_t>(i)] = at::stack(of_heads);
    }
  return at::stack(rows);
}

Op between(const std::vector<SpanPair>& pairs, AttentionOptions options) {
  return [=](const std::vector<Tensor>& in) mutable {
    const RelativeBias bias{in.size() > 3 ? in[3] : Tensor(), kZero};
    if (in.size() > 3) options.bias = &bias;
    return attention_between(in[0], in[1], in[2], pairs, options);
  };
}

std::vector<Tensor> inputs(bool with_bias, std::int64_t heads = 4, std::int64_t groups = 4) {
  std::vector<Tensor> all{sample({kQueries, heads, 5}), sample({kKeys, groups, 5}, at::kDouble, 2),
                          sample({kKeys, groups, 5}, at::kDouble, 3)};
  if (with_bias) all.push_back(sample({heads, kDistances}, at::kDouble, 4));
  return all;
}

TEST(AttentionBetween, IsItsMeaning) {
  for (const Mask mask : {Mask::full(), Mask::causal()})
    for (const bool with_bias : {false, true})
      for (const std::int64_t groups : {4, 2}) {
        const std::vector<SpanPair> some(kPairs.begin(), kPairs.begin() + 1),
            &pairs = mask.kind == Mask::Kind::full ? kPairs : some;
        const AttentionOptions options{.scale = 0.4, .mask = mask};
        const Op plain = [&](const auto& in) { return meaning(in, pairs, options); };
        for (const at::ScalarType type : {at::kDouble, at::kFloat})
          expect_matches(between(pairs, options), plain, inputs(with_bias, 4, groups), type);
      }
}

TEST(AttentionBetween, WithoutKeysIsZero) {
  const std::vector<Tensor> in = inputs(false);
  const Tensor y = attention_between(in[0], in[1], in[2], {{{0, 3}, {4, 4}}}, {.mask = Mask::full()});
  EXPECT_TRUE(at::equal(y, at::zeros_like(in[0])));
}

// Of documents that attend to themselves it is attention(), and one token after another through the cache.
TEST(AttentionBetween, WithABiasIsTheSameTokenByToken) {
  const std::int64_t length = 9;
  const Tensor q = sample({length, 4, 5}), k = sample({length, 4, 5}, at::kDouble, 2),
               v = sample({length, 4, 5}, at::kDouble, 3);
  const RelativeBias bias{sample({4, kDistances}, at::kDouble, 4), kZero};
  const AttentionOptions options{.scale = 0.4, .bias = &bias};
  const Tensor whole = attention(q, k, v, {{0, length}}, options);
  const auto keys = [](const Tensor& x) { return x.transpose(0, 1); };
  expect_close(cached_attention(q.slice(0, 4), keys(k), keys(v), options), whole.slice(0, 4), 1e-12, "cached");
  for (std::int64_t t = 0; t < length; ++t)
    expect_close(decode_attention(q.slice(0, t, t + 1), keys(k).unsqueeze(0), keys(v).unsqueeze(0),
                                  at::full({1}, t, at::kLong), options)[0],
                 whole[t], 1e-12, std::to_string(t));
}

// Weights that dropout keeps are larger, so that the mean stays; the same seed drops the same.
TEST(AttentionBetween, DropsWeights) {
  const std::vector<Tensor> in = inputs(true);
  const RelativeBias bias{in[3], kZero};
  const auto made = [&](double rate, std::uint64_t seed) {
    return attention_between(in[0], in[1], at::ones_like(in[2]), kPairs,
                             {.mask = Mask::full(), .dropout = rate, .seed = seed, .bias = &bias});
  };
  EXPECT_TRUE(at::equal(made(0.5, 1), made(0.5, 1)));
  EXPECT_FALSE(at::equal(made(0.5, 1), made(0.5, 2)));
  Tensor sum = at::zeros_like(in[0]);
  for (std::uint64_t seed = 0; seed < 600; ++seed) sum += made(0.5, seed);
  expect_close(sum / 600, made(0, 0), 0.15, "the mean");
}

TEST(AttentionBetween, GradientsOfDroppedWeightsAreThoseOfTheSameWeights) {
  const AttentionOptions options{.scale = 0.4, .mask = Mask::full(), .dropout = 0.3, .seed = 5};
  std::vector<Tensor> in = inputs(true);
  const Result made = value_and_gradients(between(kPairs, options), in);
  constexpr double kStep = 1e-6;
  const Tensor weights = sample(made.value.sizes(), at::kDouble, 99);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Tensor direction = sample(in[i].sizes(), at::kDouble, 50 + i);
    const auto at_step = [&](double step) {
      std::vector<Tensor> moved = in;
      moved[i] = in[i] + step * direction;
      return (between(kPairs, options)(moved) * weights).sum().item<double>();
    };
    const double expected = (at_step(kStep) - at_step(-kStep)) / (2 * kStep);
    EXPECT_NEAR((made.gradients[i] * direction).sum().item<double>(), expected,
                1e-6 * std::max(1.0, std::abs(expected)))
        << i;
  }
}

}  // namespace
}  // namespace hone::ops::test
