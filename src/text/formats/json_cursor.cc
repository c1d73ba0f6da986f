// Strings with their escapes, and values that are passed over.
#include "text/formats/json_cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "hone/error.h"
#include "text/unicode/unicode.h"

namespace hone::text {

void JsonCursor::fail(const std::string& fact) const {
  const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto last = before.rfind('\n');
  const std::size_t column = last == std::string_view::npos ? at_ + 1 : at_ - last;
  throw Error(ErrorKind::config, fmt::format("{}:{}:{}: not JSON: {}", what_, line, column, fact));
}

char JsonCursor::peek() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
    ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonCursor::expect(char c) {
  if (!maybe(c)) fail(at_ < text_.size() ? fmt::format("expected '{}'", c) : "ends too early");
}

bool JsonCursor::maybe(char c) {
  if (peek() != c || at_ >= text_.size()) return false;
  ++at_;
  return true;
}

std::string_view JsonCursor::string() {
  expect('"');
  const std::size_t begin = at_;
  unescaped_.clear();
  bool escaped = false;
  for (std::size_t copied = begin;; ++at_) {
    if (at_ >= text_.size()) fail("a string is not closed");
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
    if (c != '"' && c != '\\') continue;
    if (escaped || c == '\\') unescaped_.append(text_, copied, at_ - copied);
    if (c == '"') break;
    escaped = true;
    ++at_;
    escape();
    copied = at_--;
  }
  ++at_;
  return escaped ? std::string_view(unescaped_) : text_.substr(begin, at_ - 1 - begin);
}

// What follows a backslash.
void JsonCursor::escape() {
  const char c = at_ < text_.size() ? text_[at_++] : '\0';
  constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  if (const std::size_t i = kFrom.find(c); i != std::string_view::npos && c != '\0') {
    unescaped_ += kTo[i];
    return;
  }
  if (c != 'u') fail("an unknown escape");
  char32_t value = hex4();
  if (value >= 0xD800 && value <= 0xDBFF && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    const char32_t low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail("half a surrogate pair");
    value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
  }
  if (value >= 0xD800 && value <= 0xDFFF) fail("half a surrogate pair");
  append_utf8(unescaped_, value);
}

unsigned JsonCursor::hex4() {
  unsigned value = 0;
  for (int n = 0; n < 4; ++n, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0', low = static_cast<char>(c | 32);
    const int digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
    if (digit < 0) fail("\\u needs four hexadecimal digits");
    value = value * 16 + static_cast<unsigned>(digit);
  }
  return value;
}

std::string_view JsonCursor::skip() {
  peek();
  const std::size_t begin = at_;
  std::size_t depth = 0;
  do {
    const char c = peek();
    if (at_ >= text_.size()) fail("ends too early");
    if (c == '"') {
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\';
      ++at_;
    } else if (c == '{' || c == '[') {
      ++depth, ++at_;
    } else if (c == '}' || c == ']') {
      if (depth == 0) fail("expected a value");
      --depth, ++at_;
    } else if (c == ',' || c == ':') {
      if (depth == 0) fail("expected a value");
      ++at_;
    } else {
      at_ = std::min(text_.find_first_of("{}[],:\" \n\r\t", at_), text_.size());
    }
  } while (depth > 0);
  at_ = std::min(at_, text_.size());
  return text_.substr(begin, at_ - begin);
}

}  // namespace hone::text
