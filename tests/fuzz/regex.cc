// A regular expression of tokenizer.json in the first line, a text behind it: matches within limits, or an error.
#include "text/regex/regex.h"

#include "base/strings.h"
#include "fuzz/fuzz.h"

HONE_FUZZ(regex) {
  using namespace hone;
  const std::string given = with_replaced_utf8(input);
  const std::size_t line = std::min(given.find('\n'), given.size());
  const std::string_view pattern = std::string_view(given).substr(0, line);
  if (text::translate_regex(pattern, "fuzz").size() > 1000) return;  // large sets of characters take long to compile
  const text::Regex regex(pattern, "fuzz");
  const std::string_view text = std::string_view(given).substr(std::min(line + 1, given.size()));
  text::RegexScratch scratch;
  std::size_t last = 0;
  regex.each_match(text, scratch, [&](std::size_t begin, std::size_t end) {
    fuzz::require(last <= begin && begin <= end && end <= text.size(), "matches follow each other");
    fuzz::require(begin == text.size() || (static_cast<unsigned char>(text[begin]) & 0xC0) != 0x80,
                  "a match begins with a character");
    last = end;
  });
}
