// UTF-8: validation, repair, and text made safe for a terminal.
#include <fmt/format.h>

#include <array>

#include "base/strings.h"

namespace hone {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t size = 0;  // 0: not UTF-8 here
};

bool is_tail(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// One code point, as the Unicode standard's table 3-7 allows it: no overlong forms, surrogates, or values above 10FFFF.
CodePoint decode(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(at);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return {};
  std::uint32_t value = lead & (0xFFu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if (!is_tail(text, at + i)) return {};
    value = value << 6 | (byte(at + i) & 0x3F);
  }
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[size] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return {};
  return {value, size};
}

// Characters that move the cursor, change direction or cannot be seen: what a hostile name would use.
bool is_unsafe(std::uint32_t c) {
  if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return true;
  if (c >= 0x200B && c <= 0x200F) return true;  // zero width, direction marks
  if (c == 0x061C || c == 0x2028 || c == 0x2029 || c == 0xFEFF) return true;
  return (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || (c >= 0xFFF9 && c <= 0xFFFB) ||
         (c >= 0xE0000 && c <= 0xE0FFF);
}

std::string escaped(std::uint32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return c < 0x100 ? fmt::format("\\x{:02x}", c) : fmt::format("\\u{:04x}", c);
  }
}

}  // namespace

std::string escape_for_terminal(std::string_view text, std::size_t most) {
  std::string safe;
  for (std::size_t at = 0; at < text.size();) {
    if (safe.size() >= most) return safe + fmt::format("… ({} bytes)", text.size());
    const CodePoint point = decode(text, at);
    if (point.size == 0)
      safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    else if (is_unsafe(point.value))
      safe += escaped(point.value);
    else
      safe += text.substr(at, point.size);
    at += std::max<std::size_t>(point.size, 1);
  }
  return safe;
}

std::string safe_lines(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) line = escape_for_terminal(line, std::string::npos);
  return join(lines, "\n");
}

std::string quoted(std::string_view text) { return '"' + escape_for_terminal(text) + '"'; }

std::optional<std::size_t> first_bad_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    if (point.size == 0) return at;
    at += point.size;
  }
  return std::nullopt;
}

bool is_utf8(std::string_view text) { return !first_bad_utf8(text); }

std::string with_replaced_utf8(std::string_view text) {
  std::string good;
  good.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    good += point.size > 0 ? text.substr(at, point.size) : std::string_view("\xEF\xBF\xBD");
    at += std::max<std::size_t>(point.size, 1);
    if (point.size == 0) {
      while (is_tail(text, at)) ++at;
    }
  }
  return good;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

}  // namespace hone
