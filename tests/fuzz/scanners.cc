// The hand-written scanners cut any text as PCRE2 does with the patterns they stand for.
#include "text/regex/scanners.h"

#include <array>

#include "base/strings.h"
#include "fuzz/fuzz.h"
#include "text/regex/regex.h"

HONE_FUZZ(scanners) {
  using namespace hone;
  using text::Scanner;
  static const std::array<text::Regex, 4> regexes = {text::Regex(text::scanner_pattern(Scanner::gpt2), "gpt2"),
                                                     text::Regex(text::scanner_pattern(Scanner::llama3), "llama3"),
                                                     text::Regex(text::scanner_pattern(Scanner::qwen2), "qwen2"),
                                                     text::Regex(text::scanner_pattern(Scanner::o200k), "o200k")};
  static_assert(static_cast<int>(Scanner::gpt2) == 0 && static_cast<int>(Scanner::o200k) == 3);
  const std::string given = with_replaced_utf8(input);
  if (given.empty()) return;
  text::RegexScratch scratch;
  for (std::size_t i = 0; i < regexes.size(); ++i) {
    std::vector<text::Piece> pieces;
    text::scan_words(static_cast<Scanner>(i), given, {0, static_cast<std::uint32_t>(given.size()), -1}, pieces);
    std::size_t at = 0;
    regexes[i].each_match(given, scratch, [&](std::size_t begin, std::size_t end) {
      fuzz::require(at < pieces.size() && pieces[at].begin == begin && pieces[at].end == end, "both cut alike");
      ++at;
    });
    fuzz::require(at == pieces.size(), "both make as many pieces");
  }
}
