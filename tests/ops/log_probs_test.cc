// Log-probabilities of labels in chunks against their meaning and against LibTorch's log_softmax.
#include "ops/log_probs.h"

#include "hone/error.h"
#include "hone/gradient_sum.h"
#include "ops/check.h"
#include "ops/head_losses.h"

namespace hone::ops::test {
namespace {

Tensor some_labels(std::int64_t tokens, std::int64_t vocab) {
  Tensor made = at::arange(tokens, at::kLong).mul(7).remainder(vocab);
  for (std::int64_t i = 0; i < tokens; i += 3) made[i] = kIgnoreIndex;
  return made;
}

Op fast_log_probs(std::int64_t tokens, std::int64_t vocab) {
  return [=](const auto& in) { return linear_log_probs(in[0], in[1], some_labels(tokens, vocab), true).log_probs_N; };
}
Op plain_log_probs(std::int64_t tokens, std::int64_t vocab) {
  return [=](const auto& in) {
    return reference::linear_log_probs(in[0], in[1], some_labels(tokens, vocab), true).log_probs_N;
  };
}
// Of logits under a cap, as in Gemma 2.
Op fast_capped(std::int64_t tokens, std::int64_t vocab) {
  return [=](const auto& in) {
    return linear_log_probs(in[0], in[1], some_labels(tokens, vocab), true, {.soft_cap = 1.5}).log_probs_N;
  };
}
Op plain_capped(std::int64_t tokens, std::int64_t vocab) {
  return [=](const auto& in) {
    return reference::linear_log_probs(in[0], in[1], some_labels(tokens, vocab), true, 1.5).log_probs_N;
  };
}
// The head is frozen.
Op frozen(const Op& op, const Tensor& head) {
  return [=](const auto& in) { return op({in[0], head.to(in[0].scalar_type())}); };
}

TEST(LogProbs, EveryKernelAgreesWithItsMeaning) {
  for (const auto& [tokens, vocab] : {std::pair{2, 1}, {5, 2}, {9, 33}, {20, 100}, {4, 1001}}) {
    const Tensor hidden = sample({tokens, 6}), head = sample({vocab, 6}, at::kDouble, 2);
    expect_matches(fast_log_probs(tokens, vocab), plain_log_probs(tokens, vocab), {hidden, head});
    expect_matches(fast_capped(tokens, vocab), plain_capped(tokens, vocab), {hidden, head});
    expect_matches(frozen(fast_capped(tokens, vocab), head), frozen(plain_capped(tokens, vocab), head), {hidden});
    expect_matches(frozen(fast_log_probs(tokens, vocab), head), frozen(plain_log_probs(tokens, vocab), head), {hidden});
  }
}
TEST(LogProbs, GradientsAreThoseOfDifferences) {
  const Tensor hidden = sample({5, 3}), head = sample({7, 3}, at::kDouble, 2);
  gradcheck(fast_log_probs(5, 7), {hidden, head});
  gradcheck(frozen(fast_log_probs(5, 7), head), {hidden});
}
TEST(LogProbs, SeveralChunksGiveWhatOneDoes) {
  const std::int64_t vocab = 17000, tokens = 450;  // 300 have a label; a chunk holds 256
  expect_matches(fast_log_probs(tokens, vocab), plain_log_probs(tokens, vocab),
                 {sample({tokens, 4}), sample({vocab, 4}, at::kDouble, 2)}, at::kFloat);
}
TEST(LogProbs, AreLibTorchs) {
  const Tensor hidden = sample({9, 5}), head = sample({11, 5}, at::kDouble, 2), target = some_labels(9, 11);
  const Tensor logits = at::linear(hidden, head), all = at::log_softmax(logits, -1);
  const TokenLogProbs made = linear_log_probs(hidden, head, target, true),
                      from_logits = log_probs(logits, target, true);
  EXPECT_FALSE(linear_log_probs(hidden, head, target, false).statistics_N4.defined());
  for (std::int64_t i = 0; i < 9; ++i) {
    const bool none = target[i].item<std::int64_t>() == kIgnoreIndex;
    const auto number = [](const Tensor& x) { return x.item<double>(); };
    const auto expect = [&](const Tensor& got, double expected) {
      EXPECT_NEAR(number(got), none ? 0 : expected, 1e-12) << i;
    };
    for (const TokenLogProbs& one : {made, from_logits}) {
      expect(one.log_probs_N[i], none ? 0 : number(all[i][target[i]]));
      expect(one.statistics_N4[i][0], -number((all[i].exp() * all[i]).sum()));
      expect(one.statistics_N4[i][1], number(logits[i].mean()));
      expect(one.statistics_N4[i][2], number(logits[i].argmax()) == number(target[i]) ? 1 : 0);
    }
  }
}
// In bf16, too, whose rows are chunked in another way.
TEST(LogProbs, StatisticsAreThoseOfTheMeaningAtEveryLevel) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensor hidden = sample({20, 6}).to(type), head = sample({333, 6}, at::kDouble, 2).to(type);
    const Tensor target = some_labels(20, 333);
    const Tensor plain = reference::linear_log_probs(hidden, head, target, true).statistics_N4;
    each_level([&](const std::string& way) {
      expect_close(linear_log_probs(hidden, head, target, true).statistics_N4, plain, type == at::kFloat ? 1e-5 : 2e-2,
                   way);
    });
  }
}
// As the loss of the same head takes part in the same step.
TEST(LogProbs, TheHeadsGradientGoesIntoItsSum) {
  const Tensor hidden = sample({9, 5}, at::kFloat), head = sample({11, 5}, at::kFloat, 2).requires_grad_(true);
  const Tensor weight = at::arange(9, at::kFloat) - 4;
  const auto run = [&](GradientSum* sum) {
    (linear_log_probs(hidden, head, some_labels(9, 11), false, {.head_sum = sum}).log_probs_N * weight)
        .sum()
        .backward();
  };
  run(nullptr);
  const Tensor alone = head.grad().clone();
  GradientSum sum{at::full({11, 5}, 7.0F)};
  run(&sum);
  EXPECT_TRUE(sum.full());
  expect_close(sum.sum, alone, 1e-6, "one pass");
  run(&sum);
  expect_close(sum.sum, 2 * alone, 1e-6, "two passes");
  expect_close(head.grad(), alone, 0, "nothing more");
}
// With entropies: a sum of both, so that each has a gradient of its own for each token.
Tensor both(const TokenLogProbs& made) {
  const Tensor weight = at::arange(made.log_probs_N.numel(), made.log_probs_N.options()) * 0.3 - 1;
  return made.log_probs_N * weight + made.entropy_N * (2 - weight);
}
TEST(LogProbs, EntropiesAndTheirGradientsAreLibTorchs) {
  for (const double cap : {0.0, 1.5}) {
    const Op fast = [&](const auto& in) {
      return both(linear_log_probs(in[0], in[1], some_labels(9, 11), false, {.soft_cap = cap, .with_entropy = true}));
    };
    const Op torch = [&](const auto& in) {
      const Tensor target = some_labels(9, 11), made = at::linear(in[0], in[1]);
      const Tensor logits = cap > 0 ? cap * at::tanh(made / cap) : made, log_p = logits.log_softmax(1);
      const Tensor none = target == kIgnoreIndex;
      return both({log_p.gather(1, target.clamp_min(0).unsqueeze(1)).squeeze(1).masked_fill(none, 0), {},
                   (-(log_p.exp() * log_p).sum(1)).masked_fill(none, 0)});
    };
    const Op logits = [&](const auto& in) {
      return both(log_probs(at::linear(in[0], in[1]), some_labels(9, 11), false, /*with_entropy=*/true));
    };
    const Tensor hidden = sample({9, 5}).mul(2), head = sample({11, 5}, at::kDouble, 2);
    expect_matches(fast, torch, {hidden, head});
    expect_matches(frozen(fast, head), frozen(torch, head), {hidden});
    if (cap == 0) expect_matches(logits, torch, {hidden, head});
    gradcheck(fast, {hidden, head});
  }
}
TEST(LogProbs, EntropiesOfSeveralChunksGiveWhatOneDoes) {
  const std::int64_t vocab = 17000, tokens = 450;
  const auto of = [&](const auto& way) {
    return [=](const auto& in) { return both(way(in[0], in[1], some_labels(tokens, vocab))); };
  };
  const auto fast = [](const Tensor& hidden, const Tensor& head, const Tensor& target) {
    return linear_log_probs(hidden, head, target, false, {.with_entropy = true});
  };
  const auto plain = [](const Tensor& hidden, const Tensor& head, const Tensor& target) {
    return reference::linear_log_probs(hidden, head, target, false, 0, /*with_entropy=*/true);
  };
  expect_matches(of(fast), of(plain), {sample({tokens, 4}), sample({vocab, 4}, at::kDouble, 2)}, at::kFloat);
}
TEST(LogProbs, NoLabelGivesZeroAndZeroGradients) {
  const Tensor none = at::full({4}, kIgnoreIndex, at::kLong);
  const Result result =
      value_and_gradients([&](const auto& in) { return linear_log_probs(in[0], in[1], none, true).log_probs_N; },
                          {sample({4, 3}), sample({5, 3})});
  EXPECT_EQ(largest(result.value), 0);
  EXPECT_EQ(largest(result.gradients[0]), 0);
  EXPECT_EQ(largest(result.gradients[1]), 0);
}
TEST(LogProbs, ALabelBeyondTheVocabularyIsAnErrorOfTheData) {
  try {
    linear_log_probs(sample({2, 3}), sample({5, 3}), at::tensor({1, 5}, at::kLong), false);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
  }
}

}  // namespace
}  // namespace hone::ops::test
