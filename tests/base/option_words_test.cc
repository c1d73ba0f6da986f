// Options in a recipe's words, or as flags.
#include "base/option_words.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(OptionWords, AreARecipesUnlessThereAreFlags) {
  EXPECT_EQ(option_words("data.max_length"), "data.max_length");
  EXPECT_EQ(option_words("data.overlong", "split"), "data.overlong: split");
  EXPECT_EQ(option_words("tokenizer"), "tokenizer");
  EXPECT_EQ(columns_words({{"text", "story"}, {"label", "stars"}}), "columns: {text: story, label: stars}");
  EXPECT_EQ(ignore_words("label"), "ignore: [label] beside the file's path");
}

TEST(OptionWords, AreFlagsWhileACommandHasThem) {
  {
    const WordsOfFlags words;
    EXPECT_EQ(option_words("data.max_length"), "--max-length");
    EXPECT_EQ(option_words("data.overlong", "split"), "--overlong split");
    EXPECT_EQ(columns_words({{"text", "story"}, {"label", "stars"}}), "--columns text=story --columns label=stars");
    EXPECT_EQ(ignore_words("label"), "--ignore label");
  }
  {
    const WordsOfFlags words("--data.");
    EXPECT_EQ(option_words("data.max_length"), "--data.max-length");
    EXPECT_EQ(option_words("tokenizer"), "--data.tokenizer");
    EXPECT_EQ(ignore_words("label"), "--data.ignore label");
  }
  EXPECT_EQ(option_words("data.max_length"), "data.max_length");
}

// They can be given to a shell, and printed.
TEST(OptionWords, OfUnusualFieldsAreOneWord) {
  const WordsOfFlags words;
  EXPECT_EQ(columns_words({{"text", "the user's text"}}), R"(--columns 'text=the user'\''s text')");
  EXPECT_EQ(ignore_words("a\x1b[31m"), R"(--ignore 'a\x1b[31m')");
}

}  // namespace
}  // namespace hone
