// Scores that fall with the distance: slopes as transformers has them, attention against its meaning, values and
// gradients at every kernel level and in each type, documents in a row, far from their beginnings and through a cache.
#include "nn/alibi.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/golden.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"
#include "ops/kernels.h"
#include "tensor/compare.h"

namespace hone::test {
namespace {

TEST(Alibi, SlopesAreThoseOfTransformers) {
  const auto expect = [](const std::vector<double>& made, const std::vector<double>& exponents) {
    ASSERT_EQ(made.size(), exponents.size());
    for (std::size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], std::exp2(exponents[i]), 1e-15) << i;
  };
  expect(nn::alibi_slopes(8), {-1, -2, -3, -4, -5, -6, -7, -8});
  expect(nn::alibi_slopes(4), {-2, -4, -6, -8});
  expect(nn::alibi_slopes(6), {-2, -4, -6, -8, -1, -3});
  expect(nn::alibi_slopes(3), {-4, -8, -2});
  expect(nn::alibi_slopes(1), {-8});
}

constexpr std::int64_t kHeads = 4, kGroups = 2, kSize = 10;

// What it means, in fp64: of each document and head by itself.
Tensor plain_alibi(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, const std::vector<ops::Span>& docs,
                   const std::vector<double>& slopes, double scale, std::int64_t window = 0) {
  std::vector<Tensor> rows;
  for (const ops::Span& doc : docs) {
    const std::int64_t length = doc.end - doc.begin;
    const Tensor place = at::arange(length, at::kDouble), far_QK = place.unsqueeze(0) - place.unsqueeze(1);
    Tensor hidden_QK = far_QK > 0;
    if (window > 0) hidden_QK = hidden_QK.logical_or(far_QK <= -window);
    std::vector<Tensor> heads;
    for (std::int64_t h = 0; h < q_NHK.size(1); ++h) {
      const std::int64_t g = h * k_NGK.size(1) / q_NHK.size(1);
      const auto part = [&](const Tensor& x, std::int64_t head) {
        return x.slice(0, doc.begin, doc.end).select(1, head).to(at::kDouble);
      };
      const Tensor scores = at::matmul(part(q_NHK, h), part(k_NGK, g).t()) * scale + slopes[h] * far_QK;
      heads.push_back(at::matmul(scores.masked_fill(hidden_QK, -INFINITY).softmax(-1), part(v_NGK, g)));
    }
    rows.push_back(at::stack(heads, 1));
  }
  return at::cat(rows);
}

// Documents in one row.
Batch row_of(const std::vector<std::int64_t>& lengths) {
  Batch batch;
  std::int32_t begin = 0;
  for (const std::int64_t length : lengths) {
    const auto end = static_cast<std::int32_t>(begin + length);
    batch.docs.push_back({.row = 0, .begin = begin, .end = end});
    begin = end;
  }
  batch.ids_BT = at::zeros({1, begin}, at::kLong);
  return batch;
}

struct Tried {
  Tensor y;
  std::vector<Tensor> gradients;
};
template <class Run>
Tried tried(const std::vector<Tensor>& given, const Tensor& weight, const Run& run) {
  std::vector<Tensor> own;
  for (const Tensor& x : given) own.push_back(x.detach().clone().set_requires_grad(true));
  Tried made{run(own), {}};
  (made.y.to(at::kDouble) * weight).sum().backward();
  for (const Tensor& x : own) made.gradients.push_back(x.grad().to(at::kDouble));
  return made;
}

void expect_meaning(const std::vector<std::int64_t>& lengths, at::ScalarType type, double tolerance,
                    std::int64_t window = 0) {
  at::manual_seed(3);
  const Batch batch = row_of(lengths);
  const std::int64_t tokens = batch.ids_BT.size(1);
  const auto some = [&](std::int64_t heads) { return at::randn({tokens, heads, kSize}, at::kDouble).to(type); };
  const std::vector<Tensor> given{some(kHeads), some(kGroups), some(kGroups)};
  const Tensor weight = at::randn({tokens, kHeads, kSize}, at::kDouble);
  const std::vector<double> slopes = nn::alibi_slopes(kHeads);
  const nn::Alibi alibi(slopes);
  const double scale = 0.3;
  std::vector<ops::Span> docs;
  for (const Doc& doc : batch.docs) docs.push_back({doc.begin, doc.end});
  Pass pass(batch);
  pass.layer = 0;
  const Tried made = tried(given, weight, [&](const std::vector<Tensor>& x) {
    return alibi.attend(x[0], x[1], x[2], pass, {.scale = scale, .mask = ops::Mask::causal(window)});
  });
  const Tried plain = tried(given, weight, [&](const std::vector<Tensor>& x) {
    return plain_alibi(x[0], x[1], x[2], docs, slopes, scale, window);
  });
  ASSERT_EQ(made.y.sizes(), plain.y.sizes());
  expect_close(made.y.to(at::kDouble), plain.y, tolerance, "y");
  for (std::size_t i = 0; i < made.gradients.size(); ++i)
    expect_close(made.gradients[i], plain.gradients[i], tolerance * std::max(1.0, largest(plain.gradients[i])),
                 "gradient " + std::to_string(i));
}

TEST(Alibi, AgreesWithItsMeaningAtEachKernelLevel) {
  for (const ops::Level wanted : {ops::Level::reference, ops::Level::basic, ops::Level::avx2, ops::Level::avx512,
                                  ops::Level::avx512bf16, ops::Level::amx}) {
    const ops::LevelScope scope(wanted);
    if (ops::level() != wanted) continue;
    SCOPED_TRACE(std::string(ops::name(wanted)));
    for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{5, 1, 12}, {150, 40}})
      for (const std::int64_t window : {0, 7}) {
        expect_meaning(lengths, at::kDouble, 1e-11, window);
        expect_meaning(lengths, at::kFloat, 2e-5, window);
        // Without kernels scores are products in bf16, which are rounded before anything is taken from them.
        if (wanted != ops::Level::reference) expect_meaning(lengths, at::kBFloat16, 0.03, window);
      }
  }
}

// bf16 has 8 bits for places and slopes; a score of one token is right to them all the same. Of queries and keys that
// are zeros the shares are the slopes' alone.
TEST(Alibi, LowerPrecisionKnowsPlacesThatAreFar) {
  constexpr std::int64_t kLength = 2500;
  const Batch batch = row_of({kLength});
  const std::vector<double> slopes{0.001, 0.0123, 0.3, 0.7};
  const nn::Alibi alibi(slopes);
  const Tensor zeros = at::zeros({kLength, kHeads, kSize}, at::kBFloat16);
  const Tensor v = at::randn({kLength, kHeads, kSize}, at::kBFloat16);
  Pass pass(batch);
  const Tensor y = alibi.attend(zeros, zeros, v, pass, {.scale = 0.3, .mask = ops::Mask::causal()});
  const Tensor place = at::arange(kLength, at::kDouble);
  for (std::int64_t h = 0; h < kHeads; ++h) {
    const Tensor shares = ((place - (kLength - 1)) * slopes[h]).softmax(0);
    const Tensor expected = at::matmul(shares, v.select(1, h).to(at::kDouble));
    expect_close(y[kLength - 1][h].to(at::kDouble), expected, 0.01, "head " + std::to_string(h));
  }
}

// A text by the cache, some tokens at a time, and another one beside it.
TEST(Alibi, ACacheKnowsWhereTokensStand) {
  at::manual_seed(5);
  const at::NoGradGuard no_graph;
  constexpr std::int64_t kLength = 23;
  const std::vector<double> slopes = nn::alibi_slopes(kHeads);
  const nn::Alibi alibi(slopes);
  const auto some = [&](std::int64_t heads) { return at::randn({kLength, heads, kSize}); };
  const Tensor q = some(kHeads), k = some(kGroups), v = some(kGroups);
  const Tensor expected = plain_alibi(q, k, v, {{0, kLength}}, slopes, 0.3);
  for (const std::int64_t chunk : {1, 4, 23}) {
    CacheSpec spec;
    spec.layers.push_back({kGroups, nn::Alibi::kept_size(kSize), 0});
    nn::KvCache cache(spec, 1);
    std::vector<Tensor> parts;
    for (std::int64_t begin = 0; begin < kLength; begin += chunk) {
      const std::int64_t end = std::min(begin + chunk, kLength);
      Batch batch = row_of({end - begin});
      Pass pass(batch);
      pass.cache = &cache, pass.layer = 0;
      cache.begin_pass();
      parts.push_back(alibi.attend(q.slice(0, begin, end), k.slice(0, begin, end), v.slice(0, begin, end), pass,
                                   {.scale = 0.3, .mask = ops::Mask::causal()}));
      cache.advance(pass.plan());
    }
    expect_close(at::cat(parts).to(at::kDouble), expected, 1e-5, "by " + std::to_string(chunk));
  }
}

}  // namespace
}  // namespace hone::test
