// Rewards of an answer's form and length: their options, and what is refused. What they give: trl_golden_test.cc.
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "rewards/scoring.h"

namespace hone::test {
namespace {

Answer long_one(std::size_t length) { return of_ids(std::vector<std::int32_t>(length, 1), "1", "1"); }

TEST(FormatReward, MatchesAllOfTheAnswer) {
  const auto digits = reward("format", "{pattern: '\\d+|[a-c]+'}");
  EXPECT_EQ(scores(*digits, {answer("12"), answer("abc"), answer("12a"), answer("a12"), answer("12\n"), answer("")}),
            (Scores{1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(scores(*reward("format", "{pattern: 'a.b'}"), {answer("a\nb"), answer("axb"), answer("ab")}),
            (Scores{1, 1, 0}));
  EXPECT_EQ(scores(*reward("format", "{pattern: '(?-m)a.*'}"), {answer("a\nb"), answer("ab")}), (Scores{0, 1}));
  EXPECT_FALSE(digits->needs_reference());
}
TEST(FormatReward, RefusesAPatternThatIsNone) {
  EXPECT_HONE_ERROR(reward("format", "{pattern: 'a)|(b'}"), config, "pattern: regular expression \"a)|(b\"");
  EXPECT_HONE_ERROR(reward("format", "{pattern: ''}"), config, "pattern: missing");
}

TEST(LengthReward, IsOfTheRunsLongestByDefault) {
  const auto length = reward("length");
  length->check(100);
  EXPECT_EQ(scores(*length, {long_one(80), long_one(90), long_one(100)}), (Scores{0, -0.5, -1}));
  EXPECT_EQ(scores(*length, {long_one(8), long_one(9), long_one(10)}, 10), (Scores{0, -0.5, -1}));
  length->check(1);
  EXPECT_EQ(scores(*length, {long_one(0), long_one(1)}, 1), (Scores{0, -1}));
}
TEST(LengthReward, RefusesWhatContradicts) {
  EXPECT_HONE_ERROR(reward("length", "{soft_punish_cache: 101}")->check(100), config,
                    "soft_punish_cache: got 101, expected at most 100");
  EXPECT_HONE_ERROR(reward("length", "{max_completion_len: 200, soft_punish_cache: 100}")->check(100), config,
                    "answers have at most 100 tokens; got 100 without cost");
  EXPECT_HONE_ERROR(reward("length", "{soft_punish_cache: 0}")->check(100), config, "it would cost nothing");
  EXPECT_HONE_ERROR(reward("length", "{max_completion_len: 0}"), config, "max_completion_len");
  reward("length", "{max_completion_len: 50}")->check(100);
}

TEST(RepetitionReward, RefusesWhatIsNoCost) {
  EXPECT_HONE_ERROR(reward("repetition", "{max_penalty: 0.5}"), config, "max_penalty");
  EXPECT_HONE_ERROR(reward("repetition", "{ngram_size: 0}"), config, "ngram_size");
}
TEST(RepetitionReward, TakesLongAnswers) {
  EXPECT_NEAR(*scores(*reward("repetition"), {long_one(100000)})[0], -1, 1e-4);
  EXPECT_EQ(scores(*reward("repetition", "{ngram_size: 9000000000000000000}"), {long_one(1000)}), Scores{0});
}

TEST(CosineReward, IsOfTheRunsLongestAndSaysNothingWithoutAReference) {
  const auto cosine = reward("cosine");
  EXPECT_TRUE(cosine->needs_reference());
  EXPECT_EQ(scores(*cosine, {long_one(0), long_one(20)}, 20), (Scores{1, 0.5}));
  Answer without = long_one(3);
  without.reference = "####";
  EXPECT_EQ(scores(*cosine, {without}), Scores{std::nullopt});
  Answer other = long_one(100);
  other.reference = "is 1";
  EXPECT_EQ(scores(*cosine, {other}), Scores{-0.5});
  EXPECT_EQ(scores(*reward("cosine", "{pattern: '\\d'}"), {other}), Scores{0.5});
}

}  // namespace
}  // namespace hone::test
