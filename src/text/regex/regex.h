// Regular expressions of tokenizer.json (Oniguruma's syntax and Unicode version), matched by PCRE2 within limits.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace hone::text {

// Oniguruma's pattern in PCRE2's syntax; classes become explicit code points, so that every Unicode version agrees.
// Throws Error(config) for what PCRE2 has no equal of; `what` begins the message.
std::string translate_regex(std::string_view pattern, const std::string& what);

// Memory for matching, made on first use; one thread at a time, any number of Regex objects.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

// Immutable after construction: any thread may search, with its own scratch.
class Regex {
 public:
  Regex(std::string_view pattern, const std::string& what);
  ~Regex();
  Regex(Regex&&) noexcept;

  // The first match at or after `from` in well-formed UTF-8. Throws Error(data) when the limits are reached.
  bool search(std::string_view text, std::size_t from, RegexScratch& scratch, std::size_t& begin,
              std::size_t& end) const;
  // To that part of what search() found last with this scratch which the first group took; where there is no group, or
  // it took nothing, they stay.
  void narrow_to_group(const RegexScratch& scratch, std::size_t& begin, std::size_t& end) const;

  // Calls each(begin, end) for all matches as Oniguruma's find_iter: an empty match right after a match is skipped.
  template <class Each>
  void each_match(std::string_view text, RegexScratch& scratch, Each&& each) const {
    std::size_t from = 0, last_end = std::string_view::npos, begin = 0, end = 0;
    while (from <= text.size() && search(text, from, scratch, begin, end)) {
      if (begin == end && last_end == end) {
        from = end + 1;
        while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) ++from;
        continue;
      }
      each(begin, end);
      from = last_end = end;
    }
  }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone::text
