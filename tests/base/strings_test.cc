// Strict numbers, nearest names, safe printing, sizes, UTF-8.
#include "base/strings.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(Strings, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(trim(" \t x y\r\n"), "x y");
  EXPECT_EQ(replace_all("aXbX", "X", "YX"), "aYXbYX");
}

TEST(Strings, EditDistanceCountsASwapOnce) {
  EXPECT_EQ(edit_distance("learning_rate", "learning_rate"), 0u);
  EXPECT_EQ(edit_distance("laerning", "learning"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
}

TEST(Strings, NearestFindsTypingMistakesOnly) {
  const std::vector<std::string> known{"learning_rate", "weight_decay", "steps"};
  EXPECT_EQ(nearest("learning_rat", known), "learning_rate");
  EXPECT_EQ(nearest("Steps", known), "steps");
  EXPECT_EQ(nearest("colour", known), "");
  EXPECT_EQ(nearest(std::string(100000, 'x'), known), "");
}

TEST(Strings, NumbersMustBeTheWholeText) {
  EXPECT_EQ(parse_int("-12"), -12);
  EXPECT_EQ(parse_int("12x"), std::nullopt);
  EXPECT_EQ(parse_int(" 1"), std::nullopt);
  EXPECT_EQ(parse_int(""), std::nullopt);
  EXPECT_EQ(parse_int("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parse_uint("-1"), std::nullopt);
  EXPECT_EQ(parse_double("1e-3"), 1e-3);
  EXPECT_EQ(parse_double("nan"), std::nullopt);
  EXPECT_EQ(parse_double("1e999"), std::nullopt);
  EXPECT_EQ(parse_size("5GB"), 5'000'000'000u);
  EXPECT_EQ(parse_size("1.5 KiB"), 1536u);
  EXPECT_EQ(parse_size("5 potatoes"), std::nullopt);
  EXPECT_EQ(parse_size("99999999999TB"), std::nullopt);
}

TEST(Strings, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(escape_for_terminal("a\x1b[2Jb\n"), "a\\x1b[2Jb\\n");
  EXPECT_EQ(escape_for_terminal("evil\u202Etxt"), "evil\\u202etxt");
  EXPECT_EQ(escape_for_terminal("caf\u00e9 \xff"), "caf\u00e9 \\xff");
  EXPECT_EQ(escape_for_terminal(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_LT(escape_for_terminal(std::string(1 << 20, 'x')).size(), 500u);
}

TEST(Strings, SafeLinesKeepTheirEndsAndLength) {
  EXPECT_EQ(safe_lines("a\x1b[2J\nb\tc\n"), "a\\x1b[2J\nb\\tc\n");
  EXPECT_EQ(safe_lines(std::string(5000, 'x')).size(), 5000u);
}

TEST(Strings, SizesAreReadable) {
  EXPECT_EQ(human_size(999), "999 B");
  EXPECT_EQ(human_size(1'400'000'000), "1.4 GB");
  EXPECT_EQ(human_size(999'999), "1.0 MB");
  EXPECT_EQ(human_count(1234567), "1.23M");
  EXPECT_EQ(human_count(7), "7");
  EXPECT_EQ(counted(1, "row") + ", " + counted(0, "row") + ", " + counted(12, "row"), "1 row, 0 rows, 12 rows");
  EXPECT_EQ(human_duration(0.045), "45ms");
  EXPECT_EQ(human_duration(187), "3m 07s");
  EXPECT_EQ(human_duration(3720), "1h 02m");
  EXPECT_EQ(human_duration(59.99), "1m 00s");
}

TEST(Strings, Utf8IsCheckedStrictly) {
  EXPECT_TRUE(is_utf8("gr\u00fc\u00df \U0001F600"));
  EXPECT_EQ(first_bad_utf8("ab\xc0\xaf"), 2u);        // overlong
  EXPECT_EQ(first_bad_utf8("\xed\xa0\x80"), 0u);      // a surrogate
  EXPECT_EQ(first_bad_utf8("\xf4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(first_bad_utf8("x\xe2\x82"), 1u);         // cut off
  EXPECT_EQ(with_replaced_utf8("a\xff"
                               "b"),
            "a\uFFFDb");
  EXPECT_TRUE(is_utf8(with_replaced_utf8("\xe2\x82 \xf0\x9f\xff")));
}

TEST(Strings, NamesAreListedUpToALimit) {
  EXPECT_EQ(list_names({"a", "b"}), "\"a\", \"b\"");
  EXPECT_EQ(list_names({"a", "b", "c"}, 1), "\"a\" and 2 more");
}

}  // namespace
}  // namespace hone
