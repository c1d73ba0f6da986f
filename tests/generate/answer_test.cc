// Stop strings and streaming: what is handed out is final, and nothing of a stop string ever is.
#include "generate/answer.h"

#include <gtest/gtest.h>

#include "text/made_golden.h"

namespace hone::generate {
namespace {

struct Result {
  std::string streamed, text;
  bool stopped = false;
};

Result feed(const std::string& text, const std::vector<std::string>& stop) {
  const auto tokenizer = load_tokenizer("bytes");
  Answer answer(*tokenizer, {'>', ' '}, stop);
  Result result;
  for (const unsigned char byte : text) {
    result.streamed += answer.push(byte);
    if (answer.stopped()) break;
  }
  result.streamed += answer.finish();
  result.text = answer.text();
  result.stopped = answer.stopped();
  return result;
}

TEST(Answer, HandsOutEverythingWithoutStopStrings) {
  const Result result = feed("grüß dich 🙂", {});
  EXPECT_EQ(result.streamed, "grüß dich 🙂");
  EXPECT_EQ(result.text, result.streamed);
}

TEST(Answer, EndsBeforeAStopString) {
  const Result result = feed("one\ntwo", {"\n"});
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.streamed, "one");
  EXPECT_EQ(result.text, "one");
}

TEST(Answer, ReleasesTheBeginningOfAStopStringThatDoesNotCome) {
  const Result result = feed("a <en", {"<end>"});
  EXPECT_FALSE(result.stopped);
  EXPECT_EQ(result.streamed, "a <en");
}

TEST(Answer, FindsAStopStringThatBeginsInsideAFalseStart) {
  const Result result = feed("x<<end>y", {"<end>"});
  EXPECT_EQ(result.streamed, "x<");
}

// The end of a prompt that is a byte token came out again, in front of the answer.
TEST(Answer, HasNothingOfThePrompt) {
  const auto tokenizer = text::made("llama2");
  const std::int32_t equals = *tokenizer->id_of("<0x3D>"), a = *tokenizer->id_of("a");
  const std::vector<std::string> stop = {"="};
  Answer answer(*tokenizer, {a, equals}, stop);
  EXPECT_EQ(answer.push(a), "a");
  EXPECT_FALSE(answer.stopped());
  answer.push(equals);
  EXPECT_TRUE(answer.stopped());
  EXPECT_EQ(answer.text(), "a");
}

// Special tokens are left out of the text, so that a stop string that is one never came.
TEST(Answer, EndsAtASpecialTokenThatIsAStopString) {
  const auto tokenizer = load_tokenizer("bytes");
  const std::int32_t special = *tokenizer->id_of("<|eos|>"), other = *tokenizer->id_of("<|pad|>");
  const std::vector<std::string> stop = {"x", "<|eos|>"};
  Answer answer(*tokenizer, {'>'}, stop);
  std::string text;
  for (const std::int32_t id : {std::int32_t{'a'}, other, std::int32_t{0xC3}, std::int32_t{0xA4}})
    text += answer.push(id);
  EXPECT_EQ(text, "aä");
  EXPECT_FALSE(answer.stopped());
  EXPECT_EQ(answer.push(special), "");
  EXPECT_TRUE(answer.stopped());
  EXPECT_EQ(answer.push('b'), "");
  EXPECT_EQ(answer.finish(), "");
  EXPECT_EQ(answer.text(), "aä");
}

TEST(Answer, TakesTheEarliestOfSeveralStopStrings) { EXPECT_EQ(feed("abcdef", {"ef", "cd", ""}).text, "ab"); }

}  // namespace
}  // namespace hone::generate
