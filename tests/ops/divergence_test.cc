// The loss of a head with a teacher: its meaning against KL divergences by LibTorch, chunks against their meaning.
#include "ops/divergence.h"

#include <ATen/OpMathType.h>

#include "ops/backend.h"
#include "ops/check.h"
#include "ops/cross_entropy.h"
#include "ops/labels.h"

namespace hone::ops::test {
namespace {

// A wider one than the model, with logits of some size.
Teacher teacher_of(std::int64_t tokens, std::int64_t vocab, Teacher like, at::ScalarType type = at::kDouble) {
  like.hidden_NE = sample({tokens, 9}, at::kDouble, 3).mul(2).to(type);
  like.head_VE = sample({vocab, 9}, at::kDouble, 4).to(type);
  return like;
}
const Teacher kKinds[] = {
    {},
    {.temperature = 2},
    {.mix = 1},
    {.temperature = 0.5, .mix = 1, .weight = 0.7},
    {.mix = 0.5},
    {.temperature = 3, .mix = 0.1, .weight = 0.4},
    {.weight = 0},
    {.soft_cap = 1.2, .temperature = 2, .mix = 0.3, .weight = 0.6}};  // of both, as Gemma 2 has it

using Way = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const CrossEntropyOptions&,
                       LossSums*);
Op taught(Way way, std::int64_t tokens, std::int64_t vocab, const Teacher& kind) {
  return [=](const auto& in) {
    const Teacher teacher = teacher_of(tokens, vocab, kind, in[0].scalar_type());
    return way(in[0], in[1], labels(tokens, vocab), weights(tokens), {.soft_cap = kind.soft_cap, .teacher = &teacher},
               nullptr);
  };
}

TEST(Divergence, EveryKernelAgreesWithItsMeaning) {
  for (const Teacher& kind : kKinds)
    for (const auto& [tokens, vocab] : {std::pair{2, 1}, {5, 2}, {9, 33}, {4, 1001}})
      expect_matches(taught(linear_cross_entropy, tokens, vocab, kind),
                     taught(reference::linear_cross_entropy, tokens, vocab, kind),
                     {sample({tokens, 6}), sample({vocab, 6}, at::kDouble, 2)});
}
TEST(Divergence, GradientsAreThoseOfDifferences) {
  for (const Teacher& kind : kKinds)
    gradcheck(taught(linear_cross_entropy, 5, 7, kind), {sample({5, 3}), sample({7, 3}, at::kDouble, 2)});
}
TEST(Divergence, SeveralChunksGiveWhatOneDoes) {  // 600 have a label; a chunk holds at most 512, a slice of it 15
  const std::int64_t vocab = 17000, tokens = 900;
  expect_matches(taught(linear_cross_entropy, tokens, vocab, kKinds[5]),
                 taught(reference::linear_cross_entropy, tokens, vocab, kKinds[5]),
                 {sample({tokens, 4}), sample({vocab, 4}, at::kDouble, 2)}, at::kFloat);
}

// By LibTorch's own divergence of probabilities.
TEST(Divergence, IsWhatItsNameSays) {
  const Tensor hidden = sample({8, 5}), head = sample({11, 5}, at::kDouble, 2), label = at::arange(8, at::kLong);
  const Teacher plain = teacher_of(8, 11, {});
  const auto distribution = [](const Tensor& logits, double temperature) { return (logits / temperature).softmax(-1); };
  const auto kl = [](const Tensor& a, const Tensor& b) {
    return at::kl_div(b.log(), a, at::Reduction::Sum, /*log_target=*/false).item<double>();
  };
  for (const double temperature : {1.0, 2.5}) {
    const Tensor p = distribution(at::linear(hidden, head), temperature),
                 t = distribution(at::linear(plain.hidden_NE, plain.head_VE), temperature);
    const auto ours = [&](double mix) {
      Teacher teacher = plain;
      teacher.temperature = temperature, teacher.mix = mix;
      return linear_cross_entropy(hidden, head, label, {}, {.teacher = &teacher}).item<double>() /
             (temperature * temperature);
    };
    EXPECT_NEAR(ours(0), kl(t, p), 1e-10);
    EXPECT_NEAR(ours(1), kl(p, t), 1e-10);
    const Tensor m = 0.3 * t + 0.7 * p;
    EXPECT_NEAR(ours(0.3), 0.3 * kl(t, m) + 0.7 * kl(p, m), 1e-10);
  }
}
TEST(Divergence, OfTheTeacherItselfIsNothing) {
  const Tensor hidden = sample({8, 5}), head = sample({11, 5}, at::kDouble, 2);
  for (const double mix : {0.0, 0.5, 1.0}) {
    const Teacher itself{.hidden_NE = hidden, .head_VE = head, .temperature = 2, .mix = mix};
    const Result made = value_and_gradients(
        [&](const auto& in) {
          return linear_cross_entropy(in[0], in[1], at::arange(8, at::kLong), {}, {.teacher = &itself});
        },
        {hidden, head});
    EXPECT_NEAR(made.value.template item<double>(), 0, 1e-12);
    EXPECT_NEAR(largest(made.gradients[0]), 0, 1e-12);
    EXPECT_NEAR(largest(made.gradients[1]), 0, 1e-12);
  }
}
TEST(Divergence, OfWeightNothingIsCrossEntropy) {
  const Teacher teacher = teacher_of(9, 11, {.weight = 0});
  const Tensor hidden = sample({9, 5}), head = sample({11, 5}, at::kDouble, 2);
  expect_close(linear_cross_entropy(hidden, head, labels(9, 11), weights(9), {.teacher = &teacher}),
               linear_cross_entropy(hidden, head, labels(9, 11), weights(9)), 1e-12, "sum");
}
TEST(Divergence, ItsPartsAreMeasured) {
  const Tensor hidden = sample({40, 5}).mul(2), head = sample({50, 5}, at::kDouble, 2), label = labels(40, 50);
  const Teacher teacher = teacher_of(40, 50, {.temperature = 2, .mix = 0.5, .weight = 0.7});
  const auto measured = [&](Way way) {
    LossSums sums;
    const double total = way(hidden, head, label, weights(40), {.teacher = &teacher}, &sums).item<double>();
    EXPECT_NEAR(0.7 * sums.divergence.item<double>() + 0.3 * sums.label.item<double>(), total, 1e-9 * total);
    EXPECT_GT(sums.right.item<double>(), 0);
    return at::stack({sums.weight.to(at::kDouble), sums.right.to(at::kDouble), sums.divergence, sums.label});
  };
  expect_close(measured(linear_cross_entropy), measured(reference::linear_cross_entropy), 1e-9, "sums");
}
// On a device all tokens go through, and those that are not learnt may hold anything.
TEST(Divergence, TokensThatAreNotLearntMayBeAnything) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor head = sample({7, 3}, at::kDouble, 2), none = at::full({1}, kIgnoreIndex, at::kLong);
  const Tensor label = at::cat({at::arange(4, at::kLong), none});
  const Teacher plain = teacher_of(5, 7, {.mix = 0.5, .weight = 0.5});
  const auto made_of = [&](double value) {
    Teacher teacher = plain;
    teacher.hidden_NE = plain.hidden_NE.clone();
    teacher.hidden_NE[4].fill_(value);
    Tensor hidden = sample({5, 3});
    hidden[4].fill_(value);
    LossSums sums;
    const Result made = value_and_gradients(
        [&](const auto& in) { return linear_cross_entropy(in[0], in[1], label, {}, {.teacher = &teacher}, &sums); },
        {hidden, head});
    return std::tuple(made, sums.divergence.item<double>(), sums.label.item<double>());
  };
  const BackendScope device(reference_backend());
  const auto [made, divergence, nll] = made_of(inf);
  const auto [expected, its_divergence, its_nll] = made_of(0);
  expect_close(made.value, expected.value, 1e-12, "loss");
  expect_close(made.gradients[0].narrow(0, 0, 4), expected.gradients[0].narrow(0, 0, 4), 1e-12, "gradient");
  EXPECT_NEAR(divergence, its_divergence, 1e-12);
  EXPECT_NEAR(nll, its_nll, 1e-12);
}
// As sharply as fp32 can say it: no logarithm of 0, no NaN.
TEST(Divergence, OfCertainDistributionsIsFinite) {
  const Tensor hidden = at::full({1, 1}, 1e4, at::kFloat), head = at::tensor({-1.0F, 0.0F, 1.0F}).view({3, 1});
  for (const double mix : {0.0, 0.5, 1.0}) {
    const Teacher opposite{.hidden_NE = -hidden, .head_VE = head, .mix = mix};
    const Result made = value_and_gradients(
        [&](const auto& in) {
          return linear_cross_entropy(in[0], in[1], at::zeros({1}, at::kLong), {}, {.teacher = &opposite});
        },
        {hidden, head});
    EXPECT_TRUE(std::isfinite(made.value.template item<double>())) << mix;
    EXPECT_TRUE(made.gradients[0].isfinite().all().template item<bool>()) << mix;
  }
}

}  // namespace
}  // namespace hone::ops::test
