// Case by tables that were probed from Python; everything else by general category.
#include "text/jinja/case.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "text/unicode/unicode.h"

namespace hone::jinja {
namespace {

using text::append_utf8;
using text::category_of;
using text::next_code_point;

struct CaseRun {
  char32_t first, last;
  std::uint8_t stride;
  std::int32_t delta;
};
struct CaseSpecial {
  char32_t from, to[3];
};

#include "text/jinja/case_data.inc"

struct Mapping {
  std::span<const CaseRun> runs;
  std::span<const CaseSpecial> specials;
};
constexpr Mapping kUpper{kUpperRuns, kUpperSpecials}, kLower{kLowerRuns, kLowerSpecials},
    kTitle{kTitleRuns, kTitleSpecials}, kFold{kFoldRuns, kFoldSpecials};

void append_mapped(std::string& to, char32_t c, const Mapping& mapping) {
  const auto run = std::upper_bound(mapping.runs.begin(), mapping.runs.end(), c,
                                    [](char32_t value, const CaseRun& r) { return value < r.first; });
  if (run != mapping.runs.begin()) {
    const CaseRun& near = *std::prev(run);
    if (c <= near.last && (c - near.first) % near.stride == 0)
      return append_utf8(to, static_cast<char32_t>(static_cast<std::int32_t>(c) + near.delta));
  }
  const auto special = std::lower_bound(mapping.specials.begin(), mapping.specials.end(), c,
                                        [](const CaseSpecial& s, char32_t value) { return s.from < value; });
  if (special == mapping.specials.end() || special->from != c || c == 0) return append_utf8(to, c);
  for (const char32_t one : special->to)
    if (one != 0) append_utf8(to, one);
}

bool in(std::span<const text::Range> ranges, char32_t c) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](char32_t value, const text::Range& r) { return value < r.first; });
  return after != ranges.begin() && c <= std::prev(after)->last;
}

bool is_lower(char32_t c) { return category_of(c) == text::Ll || in(kOtherLower, c); }
bool is_upper(char32_t c) { return category_of(c) == text::Lu || in(kOtherUpper, c); }
bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || category_of(c) == text::Lt; }
bool is_case_ignorable(char32_t c) {
  switch (category_of(c)) {
    case text::Mn:
    case text::Me:
    case text::Cf:
    case text::Lm:
    case text::Sk:
      return true;
    default:
      return in(kOtherIgnorable, c);
  }
}

// Whether the sigma in text[begin, end) ends a word: a cased character before it and none after it.
bool is_final_sigma(std::string_view text, std::size_t begin, std::size_t end) {
  char32_t before = 0;
  for (std::size_t at = begin; at > 0;) {
    before = text::code_point_before(text, at);
    if (!is_case_ignorable(before)) break;
    do --at;
    while (text::is_continuation(text[at]));
    before = 0;
  }
  if (before == 0 || !is_cased(before)) return false;
  for (std::size_t at = end; at < text.size();) {
    const char32_t after = next_code_point(text, at);
    if (!is_case_ignorable(after)) return !is_cased(after);
  }
  return true;
}

void append_lower(std::string& to, std::string_view text, std::size_t begin, std::size_t end, char32_t c) {
  if (c == 0x3A3)
    append_utf8(to, is_final_sigma(text, begin, end) ? 0x3C2 : 0x3C3);
  else
    append_mapped(to, c, kLower);
}

std::string map_all(std::string_view text, const Mapping& mapping) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) append_mapped(out, next_code_point(text, at), mapping);
  return out;
}

template <class Append>
std::string map_each(std::string_view text, Append&& append) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(text, at);
    append(out, c, begin, at);
  }
  return out;
}

}  // namespace

std::string upper(std::string_view text) { return map_all(text, kUpper); }
std::string fold_case(std::string_view text) { return map_all(text, kFold); }

std::string lower(std::string_view text) {
  return map_each(text, [&](std::string& out, char32_t c, std::size_t begin, std::size_t end) {
    append_lower(out, text, begin, end, c);
  });
}

std::string capitalize(std::string_view text) {
  return map_each(text, [&](std::string& out, char32_t c, std::size_t begin, std::size_t end) {
    begin == 0 ? append_mapped(out, c, kTitle) : append_lower(out, text, begin, end, c);
  });
}

std::string title(std::string_view text) {
  bool inside = false;
  return map_each(text, [&](std::string& out, char32_t c, std::size_t begin, std::size_t end) {
    inside ? append_lower(out, text, begin, end, c) : append_mapped(out, c, kTitle);
    inside = is_cased(c);
  });
}

std::string swap_case(std::string_view text) {
  return map_each(text, [&](std::string& out, char32_t c, std::size_t begin, std::size_t end) {
    if (is_upper(c))
      append_lower(out, text, begin, end, c);
    else if (is_lower(c))
      append_mapped(out, c, kUpper);
    else
      append_utf8(out, c);
  });
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}
bool is_alpha(char32_t c) { return category_of(c) <= text::Lo; }
bool is_decimal(char32_t c) { return category_of(c) == text::Nd; }
bool is_digit(char32_t c) { return is_decimal(c) || in(kOtherDigit, c); }
bool is_numeric(char32_t c) {
  const auto category = category_of(c);
  return category == text::Nd || category == text::Nl || category == text::No || in(kOtherNumeric, c);
}
bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }
bool is_printable(char32_t c) { return c == ' ' || category_of(c) < text::Zs; }

bool all_lower(std::string_view text) {
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (is_upper(c) || category_of(c) == text::Lt) return false;
    any = any || is_lower(c);
  }
  return any;
}

bool all_upper(std::string_view text) {
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (is_lower(c) || category_of(c) == text::Lt) return false;
    any = any || is_upper(c);
  }
  return any;
}

bool all_title(std::string_view text) {
  bool any = false, inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (is_upper(c) || category_of(c) == text::Lt) {
      if (inside) return false;
      any = inside = true;
    } else if (is_lower(c)) {
      if (!inside) return false;
      any = true;
    } else {
      inside = false;
    }
  }
  return any;
}

}  // namespace hone::jinja
