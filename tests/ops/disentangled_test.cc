// Attention by content and distance against its meaning: values and gradients, documents of alike and other lengths, in
// groups and alone, places between them, and dropout.
#include "ops/disentangled.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "ops/check.h"
#include "ops/levels.h"
#include "tensor/compare.h"

namespace hone::ops {
namespace {

struct MadeByDistance {
  at::Tensor y_NHK;
  std::vector<at::Tensor> gradients;  // of q, k, v and of the tables that there are
};

// Distances beyond 3 share buckets: -3 and less, ..., 3 and more.
std::vector<std::int64_t> buckets_to(std::int64_t longest) {
  std::vector<std::int64_t> buckets;
  for (std::int64_t d = -(longest - 1); d < longest; ++d) buckets.push_back(std::clamp<std::int64_t>(d, -3, 3) + 3);
  return buckets;
}

constexpr std::int64_t kDistanceHeads = 3, kDistanceHeadSize = 8;

struct GivenHeads {
  GivenHeads(std::int64_t tokens, at::ScalarType type, bool with_keys, bool with_queries) {
    at::manual_seed(7);
    const auto some = [&](std::int64_t rows) {
      return at::randn({rows, kDistanceHeads, kDistanceHeadSize}, at::kDouble).to(type).set_requires_grad(true);
    };
    q = some(tokens), k = some(tokens), v = some(tokens),
    weight = at::randn({tokens, kDistanceHeads, kDistanceHeadSize}, type);
    if (with_keys) tables.keys_PHK = some(7);
    if (with_queries) tables.queries_PHK = some(7);
  }
  at::Tensor q, k, v, weight;
  DistanceScores tables;
};

template <class Run>
MadeByDistance made_by(Run&& run, GivenHeads& given) {
  MadeByDistance made{run(), {}};
  for (at::Tensor* one : {&given.q, &given.k, &given.v, &given.tables.keys_PHK, &given.tables.queries_PHK})
    if (one->defined()) one->mutable_grad() = at::Tensor();
  (made.y_NHK * given.weight).sum().backward();
  for (at::Tensor* one : {&given.q, &given.k, &given.v, &given.tables.keys_PHK, &given.tables.queries_PHK})
    if (one->defined()) made.gradients.push_back(one->grad().clone());
  return made;
}

const AttentionOptions kWhole{.scale = 0.3, .mask = Mask::full()};

void expect_meaning(const std::vector<Span>& spans, std::int64_t tokens, at::ScalarType type, bool with_keys,
                    bool with_queries, double tolerance) {
  GivenHeads given(tokens, type, with_keys, with_queries);
  std::int64_t longest = 1;
  for (const Span& span : spans) longest = std::max(longest, span.end - span.begin);
  given.tables.buckets = buckets_to(longest + 2);  // more than are needed
  const Documents documents(spans);
  const MadeByDistance fast = made_by(
      [&] { return disentangled_attention(given.q, given.k, given.v, given.tables, documents, kWhole); }, given);
  const MadeByDistance plain = made_by(
      [&] { return reference::disentangled_attention(given.q, given.k, given.v, given.tables, documents, kWhole); },
      given);
  EXPECT_LE((fast.y_NHK - plain.y_NHK).abs().max().item<double>(), tolerance);
  ASSERT_EQ(fast.gradients.size(), plain.gradients.size());
  for (std::size_t i = 0; i < fast.gradients.size(); ++i)
    EXPECT_LE((fast.gradients[i] - plain.gradients[i]).abs().max().item<double>(),
              tolerance * std::max(1.0, plain.gradients[i].abs().max().item<double>()))
        << i;
}

TEST(Disentangled, AgreesWithItsMeaning) {
  for (const auto& [keys, queries] : {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
    SCOPED_TRACE(std::to_string(keys) + std::to_string(queries));
    expect_meaning({{0, 9}}, 9, at::kDouble, keys, queries, 1e-12);                                  // one
    expect_meaning({{0, 1}, {1, 3}}, 3, at::kDouble, keys, queries, 1e-12);                          // of one token
    expect_meaning({{0, 15}, {15, 31}, {31, 46}, {46, 50}}, 50, at::kDouble, keys, queries, 1e-12);  // alike, and not
    expect_meaning({{2, 10}, {10, 10}, {13, 21}}, 24, at::kDouble, keys, queries, 1e-12);  // with places between
    expect_meaning({{0, 33}, {33, 70}}, 70, at::kFloat, keys, queries, 2e-5);
    expect_meaning({{0, 33}, {33, 70}}, 70, at::kBFloat16, keys, queries, 4e-2);  // each rounds elsewhere
  }
}

// Dropped weights are the same in the backward pass: the gradient is that of the function that was computed.
TEST(Disentangled, GradientsUnderDropout) {
  GivenHeads given(13, at::kDouble, true, true);
  given.tables.buckets = buckets_to(8);
  AttentionOptions options = kWhole;
  options.dropout = 0.3, options.seed = 11;
  const Documents documents{{0, 7}, {7, 13}};
  const auto run = [&] { return disentangled_attention(given.q, given.k, given.v, given.tables, documents, options); };
  const MadeByDistance made = made_by(run, given);
  EXPECT_TRUE(made.y_NHK.equal(run()));
  const at::NoGradGuard no_grad;
  constexpr double kStep = 1e-6;
  const at::Tensor* const all[] = {&given.q, &given.k, &given.v, &given.tables.keys_PHK, &given.tables.queries_PHK};
  for (std::size_t i = 0; i < 5; ++i) {
    double* data = all[i]->mutable_data_ptr<double>();
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{37}, all[i]->numel() - 1}) {
      const double was = data[at];
      data[at] = was + kStep;
      const double more = (run() * given.weight).sum().item<double>();
      data[at] = was - kStep;
      const double less = (run() * given.weight).sum().item<double>();
      data[at] = was;
      EXPECT_NEAR((more - less) / (2 * kStep), made.gradients[i].flatten()[at].item<double>(), 1e-6) << i << " " << at;
    }
  }
}

TEST(Disentangled, OfNothing) {
  GivenHeads given(4, at::kFloat, true, true);
  given.tables.buckets = buckets_to(2);
  const at::Tensor y = disentangled_attention(given.q, given.k, given.v, given.tables, Documents(), kWhole);
  EXPECT_EQ(y.abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace hone::ops
