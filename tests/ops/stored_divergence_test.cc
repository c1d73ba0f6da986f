// The loss of a head with what a teacher has said beforehand: against the teacher itself, and chunks against their
// meaning.
#include "ops/stored_divergence.h"

#include "ops/check.h"
#include "ops/cross_entropy.h"
#include "ops/labels.h"

namespace hone::ops::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor teacher_logits(std::int64_t tokens, std::int64_t vocab) {
  return sample({tokens, vocab}, at::kDouble, 7).mul(2);
}

// Of the k likeliest tokens, in an order of their own.
Said said_of(const Tensor& logits_NV, std::int64_t k, double made_with = 1, bool among = false) {
  auto [log_probs, ids] = (logits_NV / made_with).log_softmax(-1).topk(k, -1);
  return {ids.flip(-1), log_probs.flip(-1), made_with, among};
}

// With a place of which nothing was said, and one of which less was.
Said with_gaps(Said said) {
  said.log_probs_NK = said.log_probs_NK.clone();
  said.log_probs_NK.select(0, 1).fill_(-kInf);
  if (said.log_probs_NK.size(1) > 1) said.log_probs_NK.select(0, 2).select(0, 0).fill_(-kInf);
  return said;
}

using Way = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const CrossEntropyOptions&,
                       LossSums*);
struct Kind {
  std::int64_t k;
  Teacher teacher;
  double made_with = 1;
  bool among = false;
};
Op taught(Way way, std::int64_t tokens, std::int64_t vocab, const Kind& kind) {
  return [=](const auto& in) {
    const Said said = with_gaps(said_of(teacher_logits(tokens, vocab), std::min(kind.k, vocab), kind.made_with,
                                        kind.among));
    Teacher teacher = kind.teacher;
    teacher.said = &said;
    const CrossEntropyOptions options{.soft_cap = teacher.soft_cap, .teacher = &teacher};
    return way(in[0], in[1], labels(tokens, vocab), weights(tokens), options, nullptr);
  };
}
const Kind kSorts[] = {{5, {}},
                       {3, {.temperature = 2, .weight = 0.7}, 1.5},
                       {4, {.temperature = 0.5}, 1, true},
                       {3, {.soft_cap = 1.2, .temperature = 2, .weight = 0.4}, 2, true},
                       {1, {.weight = 0.6}},
                       {2, {.weight = 0}}};

TEST(StoredDivergence, EveryKernelAgreesWithItsMeaning) {
  for (const Kind& kind : kSorts)
    for (const auto& [tokens, vocab] : {std::pair{4, 1}, {5, 2}, {9, 33}, {4, 1001}})
      expect_matches(taught(linear_cross_entropy, tokens, vocab, kind),
                     taught(reference::linear_cross_entropy, tokens, vocab, kind),
                     {sample({tokens, 6}), sample({vocab, 6}, at::kDouble, 2)});
}
TEST(StoredDivergence, GradientsAreThoseOfDifferences) {
  for (const Kind& kind : kSorts)
    gradcheck(taught(linear_cross_entropy, 5, 7, kind), {sample({5, 3}), sample({7, 3}, at::kDouble, 2)});
}
TEST(StoredDivergence, SeveralChunksGiveWhatOneDoes) {  // 600 have a label; a chunk holds at most 512
  const std::int64_t vocab = 17000, tokens = 900;
  expect_matches(taught(linear_cross_entropy, tokens, vocab, kSorts[1]),
                 taught(reference::linear_cross_entropy, tokens, vocab, kSorts[1]),
                 {sample({tokens, 4}), sample({vocab, 4}, at::kDouble, 2)}, at::kFloat);
}

// All of the vocabulary, said beforehand, is the teacher.
TEST(StoredDivergence, OfTheWholeVocabularyIsThatFromTheTeacherItself) {
  const std::int64_t tokens = 12, vocab = 23;
  const Tensor hidden_NE = sample({tokens, 9}, at::kDouble, 3).mul(2), head_VE = sample({vocab, 9}, at::kDouble, 4);
  for (const double temperature : {1.0, 2.5})
    for (const double made_with : {1.0, 2.0})
      for (const bool among : {false, true}) {
        Teacher asked{.temperature = temperature, .weight = 0.7}, stored = asked;
        asked.hidden_NE = hidden_NE, asked.head_VE = head_VE;
        const Said said = said_of(at::linear(hidden_NE, head_VE), vocab, made_with, among);
        stored.said = &said;
        const auto made = [&](const Teacher& teacher, LossSums* sums = nullptr) {
          return [&, sums](const auto& in) {
            return linear_cross_entropy(in[0], in[1], labels(tokens, vocab), weights(tokens), {.teacher = &teacher},
                                        sums);
          };
        };
        const std::vector<Tensor> inputs{sample({tokens, 6}), sample({vocab, 6}, at::kDouble, 2)};
        const Result a = value_and_gradients(made(asked), inputs), b = value_and_gradients(made(stored), inputs);
        expect_close(b.value, a.value, 1e-12, "value");
        for (std::size_t i = 0; i < inputs.size(); ++i) expect_close(b.gradients[i], a.gradients[i], 1e-12, "gradient");
        LossSums one, other;
        made(asked, &one)(inputs), made(stored, &other)(inputs);
        expect_close(other.divergence, one.divergence, 1e-12, "divergence");
        expect_close(other.label, one.label, 1e-12, "label");
        expect_close(other.right, one.right, 1e-12, "right");
      }
}

TEST(StoredDivergence, WhereNothingWasSaidOnlyTheLabelIsLearnt) {
  const std::int64_t tokens = 4, vocab = 9;
  Said said = said_of(teacher_logits(tokens, vocab), 3);
  said.log_probs_NK = at::full_like(said.log_probs_NK, -kInf);
  for (const bool among : {false, true}) {
    said.among = among;
    const Teacher teacher{.said = &said, .temperature = 2, .weight = 0.25};
    const Tensor label = at::arange(tokens, at::kLong);
    const std::vector<Tensor> inputs{sample({tokens, 5}), sample({vocab, 5}, at::kDouble, 2)};
    const Result made = value_and_gradients(
        [&](const auto& in) { return linear_cross_entropy(in[0], in[1], label, {}, {.teacher = &teacher}); }, inputs);
    const Result plain = value_and_gradients(
        [&](const auto& in) { return linear_cross_entropy(in[0], in[1], label, {}).mul(0.75); }, inputs);
    expect_close(made.value, plain.value, 1e-12, "value");
    expect_close(made.gradients[0], plain.gradients[0], 1e-12, "gradient");
    expect_close(made.gradients[1], plain.gradients[1], 1e-12, "gradient");
  }
}

// On a device all tokens go through, and those that are not learnt may hold anything.
TEST(StoredDivergence, TokensThatAreNotLearntMayBeAnything) {
  const Said said = said_of(teacher_logits(3, 7), 4);
  const Teacher teacher{.said = &said, .weight = 0.5};
  const Tensor head = sample({7, 3}, at::kDouble, 2), label = at::tensor({1, 2, -100}, at::kLong);
  const auto made = [&](double value) {
    Tensor hidden = sample({3, 3});
    hidden.select(0, 2).fill_(value);
    return value_and_gradients(
        [&](const auto& in) { return linear_cross_entropy(in[0], in[1], label, {}, {.teacher = &teacher}); },
        {hidden, head});
  };
  const Result zero = made(0), huge = made(1e300);
  EXPECT_TRUE(zero.value.equal(huge.value));
  EXPECT_TRUE(zero.gradients[1].equal(huge.gradients[1]));
}

}  // namespace
}  // namespace hone::ops::test
