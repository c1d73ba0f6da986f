// The hand-written scanners cut exactly as the regular expressions they stand for.
#include "text/regex/scanners.h"

#include <gtest/gtest.h>

#include <random>

#include "text/regex/regex.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

using Cuts = std::vector<std::pair<std::size_t, std::size_t>>;

Cuts by_scanner(Scanner scanner, const std::string& text) {
  std::vector<Piece> pieces;
  if (!text.empty()) scan_words(scanner, text, {0, static_cast<std::uint32_t>(text.size()), -1}, pieces);
  Cuts cuts;
  for (const Piece& p : pieces) cuts.push_back({p.begin, p.end});
  return cuts;
}

Cuts by_regex(const Regex& regex, const std::string& text) {
  RegexScratch scratch;
  Cuts cuts;
  regex.each_match(text, scratch, [&](std::size_t begin, std::size_t end) { cuts.push_back({begin, end}); });
  return cuts;
}

// Characters of every kind that the patterns tell apart, and some of all others.
std::string random_text(std::mt19937& random) {
  static const std::u32string kCharacters =
      U"  \t\n\r\n''stmdrevlSTMDREVL\u017F\u212Aabc\u00E9\u0416\u4E2D\u0E01 "
      U"AZazßªʰ/\u01C5\u0903019\u0664\u2166\u00BD.,!-_$\U0001F389\u0301\u200D\u00A0\u3000\u2028\u0085\u001C\u180E";
  std::string text;
  for (std::size_t n = random() % 24; n > 0; --n) {
    char32_t c = kCharacters[random() % kCharacters.size()];
    if (random() % 16 == 0) c = random() % 0x30000;
    append_utf8(text, c >= 0xD800 && c <= 0xDFFF ? U'x' : c);
  }
  return text;
}

TEST(Scanners, CutAsTheirRegex) {
  std::mt19937 random(1);
  for (const Scanner scanner : {Scanner::gpt2, Scanner::llama3, Scanner::qwen2, Scanner::o200k}) {
    const Regex regex(scanner_pattern(scanner), "test");
    for (int i = 0; i < 20'000; ++i) {
      const std::string text = random_text(random);
      ASSERT_EQ(by_scanner(scanner, text), by_regex(regex, text))
          << static_cast<int>(scanner) << " " << testing::PrintToString(text);
    }
  }
}

TEST(Scanners, AreFoundByTheirPatternOnly) {
  EXPECT_EQ(find_scanner(scanner_pattern(Scanner::qwen2)), Scanner::qwen2);
  EXPECT_EQ(find_scanner("\\p{L}+"), std::nullopt);
}

TEST(Scanners, KeepTheWholePieceAndNothingElse) {
  const std::string text = "before the piece, 123 after";
  std::vector<Piece> pieces;
  scan_words(Scanner::gpt2, text, {7, 21, -1}, pieces);
  ASSERT_FALSE(pieces.empty());
  EXPECT_EQ(pieces.front().begin, 7u);
  EXPECT_EQ(pieces.back().end, 21u);
}

}  // namespace
}  // namespace hone::text
