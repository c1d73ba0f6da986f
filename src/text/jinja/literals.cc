// Python's number forms and the escapes of its "unicode-escape" codec.
#include "text/jinja/literals.h"

#include <fmt/format.h>

#include <charconv>

#include "text/jinja/fault.h"
#include "text/unicode/unicode.h"

namespace hone::jinja {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// Digits of a base with single underscores between them, from `at`; the digits are added to `to`.
std::size_t digits(std::string_view text, std::size_t at, int base, std::string& to, bool underscore_first = false) {
  bool may_underscore = underscore_first;
  while (at < text.size()) {
    const bool underscore = text[at] == '_';
    const std::size_t digit = at + underscore;
    if ((underscore && !may_underscore) || digit >= text.size() || digit_of(text[digit]) >= base) break;
    to += text[digit];
    at = digit + 1;
    may_underscore = true;
  }
  return at;
}

Number whole(std::size_t size, const std::string& digits, int base, int line) {
  Number number{.size = size};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number.integer, base);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail_at(line, "an integer that does not fit 64 bits");
  return number;
}

bool is_sign(char c) { return c == '+' || c == '-'; }

std::size_t fraction_of(std::string_view text, std::size_t at, std::string& to) {
  if (at >= text.size() || text[at] != '.') return at;
  std::string more;
  const std::size_t end = digits(text, at + 1, 10, more);
  if (more.empty()) return at;
  to += '.' + more;
  return end;
}

std::size_t exponent_of(std::string_view text, std::size_t at, std::string& to) {
  if (at >= text.size() || (text[at] != 'e' && text[at] != 'E')) return at;
  const bool sign = at + 1 < text.size() && is_sign(text[at + 1]);
  std::string more;
  const std::size_t end = digits(text, at + 1 + sign, 10, more);
  if (more.empty()) return at;
  to += 'e';
  if (sign) to += text[at + 1];
  to += more;
  return end;
}

}  // namespace

Number read_number(std::string_view text, bool after_dot, int line) {
  std::string written;
  std::size_t end = digits(text, 0, 10, written);
  if (!after_dot) {
    const std::size_t fraction = exponent_of(text, fraction_of(text, end, written), written);
    if (fraction != end) {
      Number number{.size = fraction, .whole = false};
      std::from_chars(written.data(), written.data() + written.size(), number.real);
      return number;
    }
  }
  if (text[0] == '0' && text.size() > 1) {
    const char mark = static_cast<char>(text[1] | 0x20);
    const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    std::string based;
    const std::size_t stop = base ? digits(text, 2, base, based, true) : 0;
    if (!based.empty()) return whole(stop, based, base, line);
    // A number that begins with 0 is made of zeros only; what follows is another token.
    std::string zeros;
    return Number{.size = digits(text, 0, 1, zeros)};
  }
  return whole(end, written, 10, line);
}

std::string unescaped(std::string_view text, int line) {
  std::string out;
  const auto bad = [&](const char* fact) { fail_at(line, fmt::format("a string with {}", fact)); };
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '\\') {
      out += text[at++];
      continue;
    }
    if (++at == text.size()) bad("a \\ at its end");
    const char c = text[at];
    if (static_cast<unsigned char>(c) >= 0x80) {  // jinja writes such a character as an escape first
      const char32_t code = text::next_code_point(text, at);
      out += code <= 0xFF     ? fmt::format("\\x{:02x}", static_cast<unsigned>(code))
             : code <= 0xFFFF ? fmt::format("\\u{:04x}", static_cast<unsigned>(code))
                              : fmt::format("\\U{:08x}", static_cast<unsigned>(code));
      continue;
    }
    ++at;
    constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
    if (const auto simple = kFrom.find(c); simple != std::string_view::npos) {
      out += kTo[simple];
    } else if (c == '\n') {  // goes with its backslash
    } else if (c >= '0' && c <= '7') {
      char32_t code = static_cast<char32_t>(c - '0');
      for (int i = 0; i < 2 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i)
        code = code * 8 + static_cast<char32_t>(text[at++] - '0');
      text::append_utf8(out, code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const int length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      char32_t code = 0;
      for (int i = 0; i < length; ++i, ++at) {
        if (at >= text.size() || digit_of(text[at]) > 15) bad("a short \\x, \\u or \\U escape");
        code = code * 16 + static_cast<char32_t>(digit_of(text[at]));
      }
      if (code > text::kMaxCodePoint || (code >= 0xD800 && code < 0xE000)) bad("an escape that is no character");
      text::append_utf8(out, code);
    } else if (c == 'N') {
      bad("a \\N escape, which is not supported");
    } else {
      out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace hone::jinja
