// The chunked loss against its meaning and against LibTorch's own cross-entropy.
#include "ops/cross_entropy.h"

#include <ATen/OpMathType.h>

#include "hone/error.h"
#include "ops/check.h"
#include "ops/labels.h"

namespace hone::ops::test {
namespace {

Op fast_cross(std::int64_t tokens, std::int64_t vocab, CrossEntropyOptions options) {
  return [=](const auto& in) {
    return linear_cross_entropy(in[0], in[1], labels(tokens, vocab), weights(tokens), options);
  };
}
Op plain(std::int64_t tokens, std::int64_t vocab, CrossEntropyOptions options) {
  return [=](const auto& in) {
    return reference::linear_cross_entropy(in[0], in[1], labels(tokens, vocab), weights(tokens), options);
  };
}
const CrossEntropyOptions kOptions[] = {{}, {0.1, 0}, {0, 1e-2}, {0.2, 1e-3}};

TEST(CrossEntropy, EveryKernelAgreesWithItsMeaning) {
  std::vector<CrossEntropyOptions> all(std::begin(kOptions), std::end(kOptions));
  all.push_back({.by_probability = true});
  all.push_back({.by_entropy_of = 4, .entropy_power = 1.5});
  for (const CrossEntropyOptions& options : all)
    for (const auto& [tokens, vocab] : {std::pair{2, 1}, {5, 2}, {9, 33}, {20, 100}, {4, 1001}})
      expect_matches(fast_cross(tokens, vocab, options), plain(tokens, vocab, options),
                     {sample({tokens, 6}), sample({vocab, 6}, at::kDouble, 2)});
}
TEST(CrossEntropy, GradientsAreThoseOfDifferences) {
  for (const CrossEntropyOptions& options : kOptions)
    gradcheck(fast_cross(5, 7, options), {sample({5, 3}), sample({7, 3}, at::kDouble, 2)});
}
TEST(CrossEntropy, SeveralChunksGiveWhatOneDoes) {
  const std::int64_t vocab = 17000, tokens = 900;  // 600 have a label; a chunk holds at most 512
  expect_matches(fast_cross(tokens, vocab, {}), plain(tokens, vocab, {}),
                 {sample({tokens, 4}), sample({vocab, 4}, at::kDouble, 2)}, at::kFloat);
}
// So large that it is not kept rearranged between chunks.
TEST(CrossEntropy, ALargeHeadInSeveralChunks) {
  const std::int64_t vocab = 33000, tokens = 780;  // 520 have a label
  const Tensor hidden = sample({tokens, 512}, at::kFloat) * 0.05, head = sample({vocab, 512}, at::kFloat, 2);
  const Result got = value_and_gradients(fast_cross(tokens, vocab, {}), {hidden, head});
  const Result expected = value_and_gradients(plain(tokens, vocab, {}), {hidden, head});
  expect_close(got.value, expected.value, 1e-5, "loss");
  for (int i = 0; i < 2; ++i) expect_close(got.gradients[i], expected.gradients[i], 1e-5, "gradient");
}
TEST(CrossEntropy, IsLibTorchsSum) {
  const Tensor hidden = sample({9, 5}), head = sample({11, 5}, at::kDouble, 2), target = labels(9, 11);
  const Tensor expected = at::cross_entropy_loss(at::linear(hidden, head), target, {}, at::Reduction::Sum, -100, 0.1);
  expect_close(linear_cross_entropy(hidden, head, target, {}, {.label_smoothing = 0.1}), expected, 1e-12, "sum");
}
// What LibTorch's own functions make of the same logits.
TEST(CrossEntropy, ItsSumsAreMeasuredBesideTheLoss) {
  const Tensor weight = weights(40), target = labels(40, 50);
  const Tensor keep = target.ne(kIgnoreIndex), w = weight.masked_select(keep).to(at::kDouble);
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const bool of_logits : {false, true}) {
      const Tensor hidden = sample({40, 6}).to(type).mul(2), head = sample({50, 6}, at::kDouble, 2).to(type);
      const Tensor logits = at::linear(hidden, head).to(at::toOpMathType(type));
      LossSums sums;
      const CrossEntropyOptions options{.z_loss = 1e-2};
      const Tensor measured = of_logits ? cross_entropy(logits, target, weight, options, &sums)
                                        : linear_cross_entropy(hidden, head, target, weight, options, &sums);
      const Tensor plain = of_logits ? cross_entropy(logits, target, weight, options)
                                     : linear_cross_entropy(hidden, head, target, weight, options);
      EXPECT_TRUE(at::equal(measured, plain));
      const Tensor at_label = logits.gather(1, target.clamp_min(0).unsqueeze(1)).squeeze(1);
      const Tensor right = at_label.eq(logits.amax(1)).masked_select(keep).to(at::kDouble);
      const Tensor lse = logits.to(at::kDouble).logsumexp(1).masked_select(keep);
      const double tolerance = type == at::kBFloat16 ? 2e-2 : type == at::kFloat ? 1e-4 : 1e-10;
      expect_close(sums.weight.to(at::kDouble), w.sum(), 1e-4, "weight");
      expect_close(sums.right.to(at::kDouble), (right * w).sum(), 1e-4, "right");
      expect_close(sums.z.to(at::kDouble), 1e-2 * (lse.square() * w).sum(), tolerance, "z");
      EXPECT_FALSE(sums.right.requires_grad() || sums.z.requires_grad());
    }
}
// T5X' form (peer-behaviour 1.3.1) without smoothing: the sum of LibTorch's loss and z lse^2, by its autograd.
TEST(CrossEntropy, ZLossAndItsGradientAreLibTorchs) {
  const Op torch = [](const auto& in) {
    const Tensor logits = at::linear(in[0], in[1]), target = labels(9, 11);
    const Tensor z = (logits.logsumexp(1).square() * target.ne(kIgnoreIndex)).sum();
    return at::cross_entropy_loss(logits, target, {}, at::Reduction::Sum, kIgnoreIndex) + 0.05 * z;
  };
  const Op ours = [](const auto& in) {
    return linear_cross_entropy(in[0], in[1], labels(9, 11), {}, {.z_loss = 0.05});
  };
  expect_matches(ours, torch, {sample({9, 5}), sample({11, 5}, at::kDouble, 2)});
}
// Gemma 2's cap by LibTorch's own functions, also with other terms beside it, and over several chunks of tokens.
TEST(CrossEntropy, CappedLogitsAndTheirGradientsAreLibTorchs) {
  const auto capped = [](const auto& in) { return 1.5 * at::tanh(at::linear(in[0], in[1]) / 1.5); };
  const Op torch = [&](const auto& in) {
    const Tensor logits = capped(in), target = labels(9, 11);
    const Tensor z = (logits.logsumexp(1).square() * target.ne(kIgnoreIndex)).sum();
    return at::cross_entropy_loss(logits, target, {}, at::Reduction::Sum, kIgnoreIndex) + 0.05 * z;
  };
  const Op ours = [](const auto& in) {
    return linear_cross_entropy(in[0], in[1], labels(9, 11), {}, {.z_loss = 0.05, .soft_cap = 1.5});
  };
  expect_matches(ours, torch, {sample({9, 5}).mul(2), sample({11, 5}, at::kDouble, 2)});
  const Op torch_of_many = [&](const auto& in) {
    return at::cross_entropy_loss(capped(in), labels(1100, 9000), {}, at::Reduction::Sum, kIgnoreIndex);
  };
  const Op ours_of_many = [](const auto& in) {
    return linear_cross_entropy(in[0], in[1], labels(1100, 9000), {}, {.soft_cap = 1.5});
  };
  expect_matches(ours_of_many, torch_of_many, {sample({1100, 3}), sample({9000, 3}, at::kDouble, 2)}, at::kFloat);
}
// DFT (Wu et al., 2025, arXiv:2508.05629): -p log p, and its gradient where p is a constant, by LibTorch's autograd.
TEST(CrossEntropy, LossesTimesTheirProbabilityAreLibTorchs) {
  const Tensor target = labels(40, 50), weight = weights(40).to(at::kDouble);
  const Op expected = [&](const auto& in) {
    const Tensor log_p = at::linear(in[0], in[1]).log_softmax(1).gather(1, target.clamp_min(0).unsqueeze(1)).squeeze(1);
    return (-log_p.detach().exp() * log_p * weight).masked_fill(target == kIgnoreIndex, 0).sum();
  };
  const std::vector<Tensor> in{sample({40, 6}), sample({50, 6}, at::kDouble, 2)};
  const Result made = value_and_gradients(fast_cross(40, 50, {.by_probability = true}), in),
               known = value_and_gradients(expected, in);
  expect_close(made.value, known.value, 1e-12, "loss");
  for (int i = 0; i < 2; ++i) expect_close(made.gradients[i], known.gradients[i], 1e-12, "gradient");
}
// EAFT (Diao et al., 2026, arXiv:2601.02151) as Axolotl has it: times a power of the entropy of the likeliest tokens'
// softmax, a constant, by LibTorch's autograd; of a few of them, and of all.
TEST(CrossEntropy, LossesTimesTheirEntropyAreLibTorchs) {
  const Tensor target = labels(40, 50), weight = weights(40).to(at::kDouble);
  const std::vector<Tensor> in{sample({40, 6}), sample({50, 6}, at::kDouble, 2)};
  for (const auto& [count, power] : {std::pair<std::int64_t, double>{20, 1}, {3, 0.5}, {1000, 2}}) {
    const Op expected = [&, count = count, power = power](const auto& in) {
      const Tensor logits = at::linear(in[0], in[1]);
      const Tensor p = std::get<0>(logits.detach().topk(std::min<std::int64_t>(count, 50))).softmax(1);
      const Tensor entropy = -(p * p.log()).sum(1);
      const Tensor nll = -logits.log_softmax(1).gather(1, target.clamp_min(0).unsqueeze(1)).squeeze(1);
      return (nll * entropy.pow(power) * weight).masked_fill(target == kIgnoreIndex, 0).sum();
    };
    const CrossEntropyOptions options{.by_entropy_of = count, .entropy_power = power};
    const Result made = value_and_gradients(fast_cross(40, 50, options), in), known = value_and_gradients(expected, in);
    expect_close(made.value, known.value, 1e-12, "loss");
    for (int i = 0; i < 2; ++i) expect_close(made.gradients[i], known.gradients[i], 1e-12, "gradient");
  }
}
TEST(CrossEntropy, NoLabelGivesZeroAndZeroGradients) {
  const Tensor none = at::full({4}, kIgnoreIndex, at::kLong);
  const Result result = value_and_gradients(
      [&](const auto& in) { return linear_cross_entropy(in[0], in[1], none, {}); }, {sample({4, 3}), sample({5, 3})});
  EXPECT_EQ(result.value.item<double>(), 0);
  EXPECT_EQ(largest(result.gradients[0]), 0);
  EXPECT_EQ(largest(result.gradients[1]), 0);
}
TEST(CrossEntropy, FrozenHeadOrHiddenGetsNoGradient) {
  const Tensor hidden = sample({4, 3}).requires_grad_(true), head = sample({5, 3});
  linear_cross_entropy(hidden, head, labels(4, 5), {}).backward();
  EXPECT_TRUE(hidden.grad().defined());
  const at::NoGradGuard no_graph;
  EXPECT_FALSE(linear_cross_entropy(hidden, head, labels(4, 5), {}).requires_grad());
}
TEST(CrossEntropy, ALabelBeyondTheVocabularyIsAnErrorOfTheData) {
  try {
    linear_cross_entropy(sample({2, 3}), sample({5, 3}), at::tensor({1, 5}, at::kLong), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
  }
}
TEST(CrossEntropy, HugeLogitsStayFinite) {
  const Tensor hidden = at::full({1, 1}, 1e4, at::kFloat), head = at::tensor({-1.0F, 0.0F, 1.0F}).view({3, 1});
  EXPECT_FLOAT_EQ(linear_cross_entropy(hidden, head, at::zeros({1}, at::kLong), {}).item<float>(), 2e4F);
}

}  // namespace
}  // namespace hone::ops::test
