// Text operations as Python's str has them.
#include "text/jinja/text_ops.h"

#include <string.h>

#include <algorithm>

#include "text/jinja/budget.h"
#include "text/jinja/case.h"
#include "text/jinja/value.h"
#include "text/unicode/unicode.h"

namespace hone::jinja {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

bool ends_line(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

std::size_t begin_of_last(std::string_view text, std::size_t end) {
  do --end;
  while (end > 0 && text::is_continuation(text[end]));
  return end;
}

bool has_character(std::string_view set, char32_t c) {
  Budget::take_steps(static_cast<std::int64_t>(set.size() / 16));
  for (std::size_t at = 0; at < set.size();)
    if (text::next_code_point(set, at) == c) return true;
  return false;
}

}  // namespace

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return kNone;
  Budget::take_steps(static_cast<std::int64_t>(needle.size() / 64));
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data()) : kNone;
}

std::size_t rfind_bytes(std::string_view text, std::string_view needle) {
  const std::string back_text(text.rbegin(), text.rend()), back_needle(needle.rbegin(), needle.rend());
  Budget::take_bytes(text.size() + needle.size());
  const std::size_t found = find_bytes(back_text, back_needle);
  return found == kNone ? kNone : text.size() - found - needle.size();
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !text::is_continuation(byte); }));
}

std::size_t byte_of_character(std::string_view text, std::size_t character) {
  std::size_t at = 0;
  for (; character > 0 && at < text.size(); --character) at += text::utf8_length(text[at]);
  return at;
}

std::string_view strip(std::string_view text, const std::optional<std::string_view>& chars, Side side) {
  const auto goes = [&](char32_t c) { return chars ? has_character(*chars, c) : is_space(c); };
  std::size_t begin = 0, end = text.size();
  while (side != Side::right && begin < end) {
    std::size_t next = begin;
    if (!goes(text::next_code_point(text, next))) break;
    begin = next;
  }
  while (side != Side::left && end > begin) {
    if (!goes(text::code_point_before(text, end))) break;
    end = begin_of_last(text, end);
  }
  return text.substr(begin, end - begin);
}

Parts split_on(std::string_view text, std::string_view separator, std::int64_t most) {
  Parts parts;
  std::size_t at = 0;
  for (std::size_t found; most != 0 && (found = find_bytes(text, separator, at)) != kNone; --most) {
    parts.push_back(text.substr(at, found - at));
    at = found + separator.size();
    Budget::take_bytes(sizeof(Parts::value_type));
  }
  parts.push_back(text.substr(at));
  return parts;
}

Parts rsplit_on(std::string_view text, std::string_view separator, std::int64_t most) {
  if (most < 0) most = static_cast<std::int64_t>(text.size()) + 1;
  // From the right on reversed copies, so that overlapping separators are met as Python meets them.
  const std::string back(text.rbegin(), text.rend()), needle(separator.rbegin(), separator.rend());
  Budget::take_bytes(text.size() + separator.size());
  Parts parts = split_on(back, needle, most);
  std::reverse(parts.begin(), parts.end());
  for (std::string_view& part : parts) {
    const auto offset = static_cast<std::size_t>(part.data() - back.data());
    part = text.substr(text.size() - offset - part.size(), part.size());
  }
  return parts;
}

Parts split_on_space(std::string_view text, std::int64_t most) {
  Parts parts;
  text = strip(text, std::nullopt, Side::left);
  while (!text.empty()) {
    if (most >= 0 && most-- == 0) {
      parts.push_back(text);  // with the white space at its other end
      break;
    }
    std::size_t end = 0;
    for (std::size_t next = 0; end < text.size(); end = next)
      if (is_space(text::next_code_point(text, next))) break;
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), std::nullopt, Side::left);
    Budget::take_bytes(sizeof(Parts::value_type));
  }
  return parts;
}

Parts rsplit_on_space(std::string_view text, std::int64_t most) {
  if (most < 0) return split_on_space(text, -1);
  Parts parts;
  text = strip(text, std::nullopt, Side::right);
  while (!text.empty()) {
    if (most-- == 0) {
      parts.push_back(text);
      break;
    }
    std::size_t begin = text.size();
    while (begin > 0 && !is_space(text::code_point_before(text, begin))) begin = begin_of_last(text, begin);
    parts.push_back(text.substr(begin));
    text = strip(text.substr(0, begin), std::nullopt, Side::right);
    Budget::take_bytes(sizeof(Parts::value_type));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Parts split_lines(std::string_view text, bool keep_ends) {
  Parts parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t c = text::next_code_point(text, at);
    if (!ends_line(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    parts.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
    Budget::take_bytes(sizeof(Parts::value_type));
  }
  if (begin < text.size()) parts.push_back(text.substr(begin));
  return parts;
}

std::size_t count_of(std::string_view text, std::string_view needle) {
  if (needle.empty()) return count_characters(text) + 1;
  std::size_t count = 0;
  for (std::size_t at = 0; (at = find_bytes(text, needle, at)) != kNone; at += needle.size()) ++count;
  return count;
}

Traced replaced(const Value& whole, const Value& old, const Value& by, std::int64_t most) {
  const std::string_view text = whole.bytes(), from = old.bytes(), to = by.bytes();
  Traced out;
  if (most < 0) most = INT64_MAX;
  std::size_t at = 0;
  const auto add = [&](std::string_view part) {
    Budget::check_text(out.text.size() + part.size());
    out.add(part, part.data() == to.data() ? by : whole);
  };
  if (from.empty()) {  // before every character, and at the end
    for (; most > 0; --most) {
      add(to);
      if (at == text.size()) return out;
      const std::size_t size = text::utf8_length(text[at]);
      add(text.substr(at, size));
      at += size;
    }
  }
  for (std::size_t found; most > 0 && !from.empty() && (found = find_bytes(text, from, at)) != kNone; --most) {
    add(text.substr(at, found - at));
    add(to);
    at = found + from.size();
  }
  add(text.substr(at));
  return out;
}

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string repeated(std::string_view text, std::int64_t times) {
  std::string out;
  if (times <= 0 || text.empty()) return out;
  const auto count = static_cast<std::size_t>(times);
  Budget::check_text(count > SIZE_MAX / text.size() ? SIZE_MAX : count * text.size());
  out.reserve(count * text.size());
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

bool all_of(std::string_view text, bool (*holds)(char32_t)) {
  for (std::size_t at = 0; at < text.size();)
    if (!holds(text::next_code_point(text, at))) return false;
  return !text.empty();
}

}  // namespace hone::jinja
