// Right and wrong answers: what of them is compared and when it is the same.
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "rewards/scoring.h"

namespace hone::test {
namespace {

struct Case {
  std::string answer, reference;
};

void expect_all(const std::string& options, std::optional<double> wanted, const std::vector<Case>& cases) {
  const auto accuracy = reward("accuracy", options);
  for (const Case& one : cases)
    EXPECT_EQ(scores(*accuracy, {answer(one.answer, one.reference)}), Scores{wanted})
        << '"' << one.answer << "\" for \"" << one.reference << '"';
}

TEST(Accuracy, TakesTheLastBox) {
  expect_all("{}", 1,
             {{"So \\boxed{42}.", "42"},
              {"\\boxed{1} no, \\boxed{42}", "42"},
              {"\\boxed {42}", "42"},
              {"\\boxed{\\boxed{42}}", "42"},
              {"\\boxed{\\frac{1}{3}}", "\\frac{1}{3}"},
              {"\\boxed{\\{1, 2\\}}", "\\{1,2\\}"},
              {"\\boxed{1\\}}", "1\\}"},
              {"\\boxed{\\text{Paris}} is it", "paris"},
              {"\\boxed{42} and #### 7", "42"},
              {"} \\boxed{42} {", "42"},
              {"\\boxed{42} then \\boxed{43", "42"},  // the last that is closed
              {"{a \\boxed{42}", "42"}});
  expect_all("{}", 0,
             {{"\\boxed{42} no, \\boxed{1}", "42"},
              {"42 \\boxed{}", "42"},
              {"\\boxed{}", "\\boxed{42}"},
              {"\\boxed{42", "42"},
              {"boxed{42}", "42"},
              {"\\boxed{4\\}2", "42"}});
}
TEST(Accuracy, TakesTheLineBehindTheLastHashes) {
  const std::string reference = "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\nIn all 48+24 = 72.\n#### 72";
  expect_all("{}", 1,
             {{"She sold 72.\n#### 72", reference},
              {"#### 72\nThat is it.", reference},
              {"#### 5\n#### 72", reference},
              {"#### $72.00\r\n", reference},
              {"72", reference},
              {"\\boxed{72}", reference}});
  expect_all("{}", 0,
             {{"#### 71", reference},
              {"72 ####", reference},
              {"####\n72", reference},
              {"72\n#### 71", reference},
              {"The answer is 72", reference}});
}
TEST(Accuracy, ElseAllOfTheAnswerCounts) {
  expect_all("{}", 1, {{" Paris.\n", "paris"}, {"\"a b\"", "\"a  b\""}, {"(B)", "B"}, {"**B**", "(b)"}});
  expect_all("{}", 0, {{"It is Paris", "Paris"}, {"ab", "a b"}, {"12", "1 2"}, {"C", "B"}, {"", "B"}});
}
TEST(Accuracy, ComparesNumbersAsNumbers) {
  expect_all("{}", 1,
             {{"42.0", "42"},          {"42.", "42"},
              {"+42", "42"},           {"1,234", "1234"},
              {"1,234,567.50", "1234567.5"},
              {"1{,}234", "1234"},     {"$1,000", "1000"},
              {"\\$5", "5"},           {"-$5", "-5"},
              {"$-5$", "-5"},          {"\xE2\x88\x92" "5", "-5"},
              {"- 5", "-5"},           {"50\\%", "50"},
              {"50 %", "50"},          {"1/2", "0.5"},
              {"\\frac{1}{2}", ".5"},  {"\\dfrac12", "1/2"},
              {"-\\frac{3}{4}", "-0.75"},
              {"\\frac{-3}{4}", "-0.75"},
              {"\\tfrac{6}{3}", "2"},  {"0.333333", "1/3"},
              {"19.999999999999996", "20"},
              {"1e-3", "0.001"},       {"$$ \\frac{1}{2} $$", "1/2"},
              {"\\(7\\)", "7"},        {"\\[ 7 \\]", "7"},
              {"**7**.", "7"},         {"90^\\circ", "90"},
              {"0", "-0"},             {"007", "7"}});
  expect_all("{}", 0,
             {{"42", "43"},
              {"-5", "5"},
              {"1,23", "123"},
              {"12,34", "1234"},
              {"0.33", "1/3"},
              {"0.5%", "50"},
              {"1250000", "1250000.50"},
              {"123456788", "123456789"},
              {"999999999999999", "999999999999998"},
              {"12345678901234567890", "12345678901234567891"},
              {"1/0", "0"},
              {"1/0", "2/0.0"},
              {"1e999", "2e999"},
              {"inf", "nan"},
              {"0", "0.0000001"},
              {"1/2/3", "1/2"},
              {"2\\frac{1}{2}", "2.5"}});  // as a product or mixed: nobody knows
}
TEST(Accuracy, IsNoAlgebraButSeesThroughTheLookOfTexts) {
  expect_all("{}", 1,
             {{"$x + 1$", "x+1"},
              {"(1, 2)", "(1,2)"},
              {"\\left(1,\\,2\\right)", "(1,2)"},
              {"\\sqrt{2} \\pi", "\\sqrt{2}\\pi"},
              {"5\\text{ cm}", "5 cm"},
              {"\\mathrm{x}_{1}", "x_{1}"},
              {"\\text{a}}", "a}"},
              {"1/0", "1/0"}});
  expect_all("{}", 0, {{"1+x", "x+1"}, {"(2,1)", "(1,2)"}, {"\\pi", "3.14159265"}, {"x_{1}", "x_1"}});
}
TEST(Accuracy, MindsCapitalsWhenAskedTo) {
  expect_all("{case_sensitive: true}", 1, {{"Paris", "Paris"}, {"1E3", "1e3"}});
  expect_all("{case_sensitive: true}", 0, {{"paris", "Paris"}});
}
TEST(Accuracy, TakesThePatternAloneWhereThereIsOne) {
  const std::string pattern = "{pattern: '[Aa]nswer is:? (\\S+)'}";
  expect_all(pattern, 1,
             {{"The answer is 42", "42"},
              {"The answer is 1. No, the answer is: 42.", "#### 42"},
              {"The answer is 42", "The answer is 42."},
              {"The answer is 42 \\boxed{7}", "42"}});
  expect_all(pattern, 0, {{"\\boxed{42}", "42"}, {"#### 42", "42"}, {"42", "42"}, {"answer is", "answer is"}});
  expect_all("{pattern: '[A-D]'}", 1, {{"not A but B", "B"}});
  expect_all("{pattern: 'x(\\d)|none'}", 1, {{"none", "none"}, {"x1 x2", "2"}});
  expect_all("{pattern: 'is (.*)'}", 1, {{"is 4\nis so\nis 5\nfine", "5"}});
}
TEST(Accuracy, CutsReasoningOff) {
  expect_all("{}", 1,
             {{"<think>is it 41?</think>42", "42"},
              {"<think>\\boxed{41}</think>\n\\boxed{42}", "42"},
              {"was it 41?</think>42", "42"},  // the template has opened it
              {"a</think>b</think>42", "42"},
              {"42", "<think>hm</think>42"}});
  expect_all("{}", 0,
             {{"<think>\\boxed{42}", "42"},
              {"<think>42</think>", "42"},
              {"42</think>", "42"},
              {"<think>\\boxed{42}</think>41", "42"}});
  expect_all("{after: ''}", 1, {{"<think>\\boxed{42}", "42"}});
  expect_all("{after: 'Final:'}", 1, {{"41 Final: 42", "42"}, {"42", "42"}});
  expect_all("{after: '</reason>'}", 0, {{"<reason>42", "<reason>42"}});
  Answer opened = answer("\\boxed{42}", "42");
  opened.prompt = "<|assistant|>\n<think>\n";
  EXPECT_EQ(scores(*reward("accuracy"), {opened}), Scores{0});
}
TEST(Accuracy, SaysNothingWhereTheReferenceIsEmptyAndNeverRewardsEmptyAnswers) {
  expect_all("{}", std::nullopt,
             {{"", ""}, {"5", ""}, {"", " \n"}, {"", "####"}, {"#### ", "text ####\n"}, {"\\boxed{}", "\\boxed{ }"},
              {"$$", "$$"}, {".", "."}});
  expect_all("{}", 0, {{"", "5"}, {"\\boxed{}", "5"}, {".", "5"}});
}
TEST(Accuracy, GivesTheValuesThatAreAskedFor) {
  const auto accuracy = reward("accuracy", "{right: 2, wrong: -0.5}");
  EXPECT_TRUE(accuracy->needs_reference());
  EXPECT_EQ(scores(*accuracy, {answer("1", "1"), answer("2", "1"), answer("<think>1", "1"), answer("1", "")}),
            (Scores{2, -0.5, -0.5, std::nullopt}));
}
TEST(Accuracy, RefusesAPatternThatIsNone) {
  EXPECT_HONE_ERROR(reward("accuracy", "{pattern: '('}"), config,
                    "pattern: regular expression \"(\": a group is not closed");
  EXPECT_HONE_ERROR(reward("accuracy", "{pattern: '(?s)x'}"), config, "the option \"s\" is not supported");
}
// Whatever a model writes, it is looked through once.
TEST(Accuracy, TakesLongAnswersOfAnyKind) {
  const auto repeated = [](const std::string& piece) {
    std::string made;
    while (made.size() < 1 << 20) made += piece;
    return made;
  };
  const auto accuracy = reward("accuracy");
  for (const std::string piece : {"\\boxed{", "\\text{", "{", "}", "$", "**", ".", "####", "\\", " ", "\\frac", ",1"})
    EXPECT_EQ(scores(*accuracy, {answer(repeated(piece), "42")}), Scores{0}) << piece;
  EXPECT_EQ(scores(*accuracy, {answer(repeated("\\boxed{") + "\\boxed{42}", "42")}), Scores{1});
  const auto slow = reward("accuracy", "{pattern: '(?:a+)+[bc]'}");  // a search without end is no match
  EXPECT_EQ(scores(*slow, {answer(std::string(5000, 'a'), "42")}), Scores{0});
  expect_all("{pattern: 'x.*'}", 1, {{"x\xE2\x82", "x\xEF\xBF\xBD"}});  // nor does half a character end the run
}

}  // namespace
}  // namespace hone::test
