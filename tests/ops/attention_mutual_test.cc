// Attention in which stretches of tokens see each other, against what it means in plain ATen, and its gradients.
#include "ops/attention_mutual.h"

#include "ops/attention.h"
#include "ops/check.h"

namespace hone::ops::test {
namespace {

// Rows 0 and 15 are in no document; a stretch at a document's beginning, one of one token, one at the end, neighbours.
const std::vector<Span> kMutualDocuments = {{1, 9}, {9, 15}, {16, 21}};
const std::vector<Span> kMutual = {{1, 5}, {6, 7}, {11, 15}, {16, 18}, {18, 21}};
constexpr std::int64_t kMutualTokens = 21;

bool is_seen(std::int64_t query, std::int64_t key, std::int64_t window, const std::vector<Span>& mutual) {
  const auto within = [&](const Span& span, std::int64_t at) { return at >= span.begin && at < span.end; };
  if (key <= query) return window == 0 || query - key < window;
  return std::any_of(mutual.begin(), mutual.end(),
                     [&](const Span& span) { return within(span, query) && within(span, key); });
}

Tensor mutual_meaning(const std::vector<Tensor>& in, const std::vector<Span>& mutual, const AttentionOptions& o) {
  const std::int64_t heads = in[0].size(1), each = heads / in[1].size(1);
  const Tensor hidden = at::ones({kMutualTokens, kMutualTokens}, at::kBool);
  for (const Span& doc : kMutualDocuments)
    for (std::int64_t q = doc.begin; q < doc.end; ++q)
      for (std::int64_t k = doc.begin; k < doc.end; ++k)
        if (is_seen(q, k, o.mask.window, mutual)) hidden[q][k] = false;
  std::vector<Tensor> made;
  for (std::int64_t h = 0; h < heads; ++h) {
    const Tensor q = in[0].select(1, h), k = in[1].select(1, h / each), v = in[2].select(1, h / each);
    const Tensor scores = (at::matmul(q, k.t()) * o.scale).masked_fill(hidden, -1e30);
    const Tensor weights = scores.softmax(-1).masked_fill(hidden, 0);  // rows in no document are 0
    made.push_back(at::matmul(weights, v));
  }
  return at::stack(made, 1);
}

std::vector<Tensor> mutual_inputs(std::int64_t groups) {
  return {sample({kMutualTokens, 4, 8}), sample({kMutualTokens, groups, 8}, at::kDouble, 2),
          sample({kMutualTokens, groups, 8}, at::kDouble, 3)};
}

TEST(AttentionMutual, IsItsMeaning) {
  for (const std::int64_t window : {0, 2, 3, 100})
    for (const std::int64_t groups : {4, 2, 1})
      for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
        const AttentionOptions options{.scale = 0.4, .mask = Mask::causal(window)};
        const Op op = [&](const auto& in) {
          return attention_mutual(in[0], in[1], in[2], kMutualDocuments, kMutual, options);
        };
        const Op plain = [&](const auto& in) { return mutual_meaning(in, kMutual, options); };
        expect_matches(op, plain, mutual_inputs(groups), type);
      }
}

// Many blocks of keys, and a stretch over several of them.
TEST(AttentionMutual, IsItsMeaningOfLongStretches) {
  const std::int64_t length = 300;
  const std::vector<Span> whole = {{0, length}}, all = {{10, 10 + 256}};
  const AttentionOptions options{.scale = 0.2, .mask = Mask::causal(64)};
  const std::vector<Tensor> in{sample({length, 2, 16}), sample({length, 1, 16}, at::kDouble, 2),
                               sample({length, 1, 16}, at::kDouble, 3)};
  const Op op = [&](const auto& x) { return attention_mutual(x[0], x[1], x[2], whole, all, options); };
  const Op plain = [&](const auto& x) {
    const Tensor at = at::arange(length), behind = at.unsqueeze(1) - at.unsqueeze(0);
    const Tensor in_stretch = (at >= 10).logical_and(at < 266);
    const Tensor seen = (behind >= 0).logical_and(behind < 64).logical_or(
        (behind < 0).logical_and(in_stretch.unsqueeze(0)).logical_and(in_stretch.unsqueeze(1)));
    const Tensor scores = at::matmul(x[0].transpose(0, 1), x[1].transpose(0, 1).transpose(-1, -2)) * 0.2;
    const Tensor weights = scores.masked_fill(seen.logical_not(), -INFINITY).softmax(-1);
    return at::matmul(weights, x[2].transpose(0, 1)).transpose(0, 1);
  };
  expect_matches(op, plain, in, at::kFloat);
}

TEST(AttentionMutual, WithoutStretchesIsAttention) {
  const std::vector<Tensor> in = mutual_inputs(2);
  const AttentionOptions options{.scale = 0.4, .mask = Mask::causal(3)};
  EXPECT_TRUE(at::equal(attention_mutual(in[0], in[1], in[2], kMutualDocuments, {}, options),
                        attention(in[0], in[1], in[2], kMutualDocuments, options)));
}

// The same weights are dropped in the backward pass, and the mean stays.
TEST(AttentionMutual, DropsWeights) {
  const auto op = [](double rate, std::uint64_t seed) {
    return [=](const std::vector<Tensor>& in) {
      return attention_mutual(in[0], in[1], in[2], kMutualDocuments, kMutual,
                              {.scale = 0.4, .dropout = rate, .seed = seed});
    };
  };
  std::vector<Tensor> in = mutual_inputs(2);
  const Result made = value_and_gradients(op(0.3, 5), in);
  constexpr double kStep = 1e-6;
  const Tensor weights = sample(made.value.sizes(), at::kDouble, 99);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Tensor direction = sample(in[i].sizes(), at::kDouble, 50 + i);
    const auto at_step = [&](double step) {
      std::vector<Tensor> moved = in;
      moved[i] = in[i] + step * direction;
      return (op(0.3, 5)(moved) * weights).sum().item<double>();
    };
    const double expected = (at_step(kStep) - at_step(-kStep)) / (2 * kStep);
    EXPECT_NEAR((made.gradients[i] * direction).sum().item<double>(), expected,
                1e-6 * std::max(1.0, std::abs(expected)));
  }
  Tensor sum = at::zeros_like(in[0]);
  for (std::uint64_t seed = 0; seed < 400; ++seed) sum += op(0.3, seed)(in);
  expect_close(sum / 400, op(0, 0)(in), 0.15, "the mean");
}

}  // namespace
}  // namespace hone::ops::test
