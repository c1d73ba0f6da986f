// Oniguruma's patterns mean in PCRE2 what they mean there, and give up within limits.
#include "text/regex/regex.h"

#include <gtest/gtest.h>

#include "harness/errors.h"
#include "text/unicode/char_set.h"

namespace hone::text {
namespace {

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  const Regex regex(pattern, "test");
  RegexScratch scratch;
  std::vector<std::string> found;
  regex.each_match(text, scratch,
                   [&](std::size_t begin, std::size_t end) { found.push_back(text.substr(begin, end - begin)); });
  return found;
}
using Found = std::vector<std::string>;

TEST(Regex, HasRubysSyntax) {
  EXPECT_EQ(matches("a{,2}b", "aaab"), (Found{"aab"}));
  EXPECT_EQ(matches("[0-9]{1,3}+", "1234567"), (Found{"1234567"}));  // a repeated interval, not a possessive one
  EXPECT_EQ(matches("a(?i)b|c", "aB aC c"), (Found{"aB", "aC"}));    // (?i) reaches over the alternatives
  EXPECT_EQ(matches("(?m).+", "a\nb"), (Found{"a\nb"}));             // Ruby's m
  EXPECT_EQ(matches(".+", "a\nb"), (Found{"a", "b"}));
  EXPECT_EQ(matches("^b$", "a\nb\nc"), (Found{"b"}));    // lines, always
  EXPECT_EQ(matches("\\h+", "12aFg"), (Found{"12aF"}));  // hexadecimal digits
  EXPECT_EQ(matches("[a-z&&[^aeiou]]+", "hello"), (Found{"h", "ll"}));
  EXPECT_EQ(matches("[a[bc]]+", "xabcx"), (Found{"abc"}));
  EXPECT_EQ(matches("x{y", "x{y"), (Found{"x{y"}));
  EXPECT_EQ(matches("\\bcaf\\u00e9\\b", "un caf\xC3\xA9!"), (Found{"caf\xC3\xA9"}));
}

TEST(Regex, KnowsTheLibrarysUnicode) {
  EXPECT_EQ(matches("\\p{L}", "\xF0\xAE\xAF\xB0"), (Found{"\xF0\xAE\xAF\xB0"}));  // U+2EBF0, Unicode 15.1
  EXPECT_EQ(matches("\\p{Han}+|\\p{Hiragana}+", "\xE4\xBD\xA0\xE3\x81\x8B"), (Found{"\xE4\xBD\xA0", "\xE3\x81\x8B"}));
  EXPECT_EQ(matches("\\s", "\xE1\xA0\x8E"), Found{});  // U+180E is no space any more
  EXPECT_EQ(matches("[^\\s\\p{L}\\p{N}]", "a1 \xC2\xA0."), (Found{"."}));
  EXPECT_EQ(matches("\\P{Lu}|\\p{^L}", "Aa"), (Found{"a"}));
}

TEST(Regex, SkipsAnEmptyMatchBehindAMatch) { EXPECT_EQ(matches("a*", "baac"), (Found{"", "aa", ""})); }

TEST(Regex, RefusesWhatItCannotSay) {
  for (const char* pattern : {"(", ")", "[", "[b-a]", "\\p{Klingon}", "\\p", "\\u12", "\\xFF", "(?x)a", "(?~a)", "a\\",
                              "[[:alpha:]]", "(?<=a*)b", "*", "\\y"})
    EXPECT_HONE_ERROR(Regex(pattern, "tokenizer.json: x"), config, "tokenizer.json: x: ");
  EXPECT_HONE_ERROR(Regex(std::string(10'000, '('), "x"), config, "nested too deep");
  EXPECT_HONE_ERROR(Regex(std::string(10'000, '['), "x"), config, "nested too deep");
  EXPECT_HONE_ERROR(Regex("\xFF", "x"), config, "not UTF-8");
}

TEST(Regex, GivesUpOnCatastrophes) {
  EXPECT_HONE_ERROR(matches("(a|aa)+$|(a*)*b", std::string(5000, 'a') + "c"), data, "gave up at byte");
  EXPECT_EQ(matches("(?:.|\n)+", std::string(1'000'000, 'x')).size(), 1u);  // no recursion per character
}

TEST(Regex, EndsWhereOthersRunAway) {
  const std::string text = std::string(20'000, 'a') + "!";
  for (const char* pattern :
       {"(a+)+$", "(a|a)*$", "(a|a?)+$", "(.*a){20}$", "([a-zA-Z]+)*$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a+a+)+b",
        "(?:(?:a*)*)*b", "\\s*(?:a\\s*)*b", "(?=(a+))a*b", "(?<=a)(a+)+b"}) {
    SCOPED_TRACE(pattern);
    try {
      matches(pattern, text);  // matching is as good an answer as giving up
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_NE(std::string(error.what()).find("gave up at byte"), std::string::npos) << error.what();
    }
  }
}

TEST(CharSet, HasTheArithmeticOfSets) {
  CharSet set;
  for (const char32_t c : {U'c', U'a', U'b', U'x'}) set.add(c, c);
  EXPECT_EQ(set.ranges().size(), 2u);
  EXPECT_EQ(to_pcre2(set), "[\\x{61}-\\x{63}\\x{78}]");
  EXPECT_EQ(to_pcre2(set.complement()), "[^\\x{61}-\\x{63}\\x{78}]");
  EXPECT_EQ(to_pcre2(set.complement().complement().intersection(CharSet(std::vector<Range>{{'b', 'z'}}))),
            "[\\x{62}-\\x{63}\\x{78}]");
  EXPECT_EQ(to_pcre2(CharSet()), "(?!)");
}

}  // namespace
}  // namespace hone::text
