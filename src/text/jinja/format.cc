// Python's format(): one value by a specification like ">8.3f".
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/budget.h"
#include "text/jinja/call.h"
#include "text/jinja/case.h"
#include "text/jinja/fault.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"
#include "text/unicode/unicode.h"

namespace hone::jinja {
namespace {

bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

int number_at(std::string_view text, std::size_t& at) {
  std::int64_t number = 0;
  bool any = false;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, any = true)
    if ((number = number * 10 + (text[at] - '0')) > 1'000'000) fail_type("too many digits in a format");
  return any ? static_cast<int>(number) : -1;
}

std::string grouped(std::string digits, char separator) {
  if (separator == '\0') return digits;
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, separator);
  return digits;
}

std::string in_base(std::uint64_t value, unsigned base, bool upper_case) {
  // Chosen before it is indexed: gcc 12's check of bounds takes the two literals' address for the index.
  const char* const digits = upper_case ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do out += digits[value % base];
  while (value /= base);
  return {out.rbegin(), out.rend()};
}

// Sign, prefix and digits, with zeros or fill between them as the alignment says.
std::string number_text(const std::string& sign, const std::string& digits, const FormatSpec& spec) {
  FormatSpec plain = spec;
  if (plain.align == '\0') plain.align = plain.zero ? '=' : '>';
  if (plain.zero && spec.fill == " ") plain.fill = "0";
  const auto length = count_characters(sign) + count_characters(digits);
  if (plain.align == '=' && spec.width > static_cast<int>(length))
    return sign + repeated(plain.fill, spec.width - static_cast<int>(length)) + digits;
  return aligned(sign + digits, plain, '>');
}

std::string sign_of(bool negative, char sign) { return negative ? "-" : sign == '-' ? "" : std::string(1, sign); }

std::string whole_text(std::int64_t value, const FormatSpec& spec) {
  const std::uint64_t size = value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  std::string sign = sign_of(value < 0, spec.sign);
  switch (spec.type) {
    case 'b':
    case 'o':
    case 'x':
    case 'X': {
      const unsigned base = spec.type == 'b' ? 2 : spec.type == 'o' ? 8 : 16;
      if (spec.alternate) sign += std::string("0") + spec.type;
      return number_text(sign, in_base(size, base, spec.type == 'X'), spec);
    }
    default: {
      std::string digits = std::to_string(size);
      if (spec.zero && spec.group && spec.width > 0)  // zeros are grouped, too
        while (grouped("0" + digits, spec.group).size() + sign.size() <= static_cast<std::size_t>(spec.width))
          digits = "0" + digits;
      return number_text(sign, grouped(digits, spec.group), spec);
    }
  }
}

std::string printf_real(double value, char type, int precision, bool alternate) {
  const std::string form = std::string("%") + (alternate ? "#" : "") + ".*" + type;
  const int size = std::snprintf(nullptr, 0, form.c_str(), precision, value);
  Budget::check_text(static_cast<std::size_t>(size));
  std::string out(static_cast<std::size_t>(size), '\0');
  std::snprintf(out.data(), out.size() + 1, form.c_str(), precision, value);
  return out;
}

std::string real_digits(double size, const FormatSpec& spec) {
  if (!std::isfinite(size)) {
    const std::string name = std::isnan(size) ? "nan" : "inf";
    return spec.type == 'F' || spec.type == 'E' || spec.type == 'G' ? upper(name) : name;
  }
  switch (spec.type) {
    case '\0': {
      if (spec.precision < 0) return repr_of(size);
      std::string text = printf_real(size, 'g', std::max(spec.precision, 1), false);
      // As repr(): one digit behind the point at least, and an exponent one digit earlier.
      if (text.find_first_of(".e") == std::string::npos) {
        if (static_cast<int>(text.size()) >= std::max(spec.precision, 1) && spec.precision > 0 && size >= 1)
          return printf_real(size, 'e', std::max(spec.precision - 1, 0), false);
        text += ".0";
      }
      return text;
    }
    case '%':
      return printf_real(size * 100, 'f', spec.precision < 0 ? 6 : spec.precision, spec.alternate) + "%";
    case 'n':
      return printf_real(size, 'g', spec.precision < 0 ? 6 : spec.precision, spec.alternate);
    default:
      return printf_real(size, spec.type, spec.precision < 0 ? 6 : spec.precision, spec.alternate);
  }
}

std::string real_text(double value, const FormatSpec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  std::string digits = real_digits(std::abs(value), spec);
  if (spec.group) {
    const std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
    digits = grouped(digits.substr(0, end), spec.group) + digits.substr(end);
  }
  return number_text(sign_of(negative, spec.sign), digits, spec);
}

std::string text_text(const std::string& text, const FormatSpec& spec) {
  if (spec.align == '=' || spec.sign != '-') fail_type("sign or '=' alignment not allowed in string format specifier");
  const std::string part =
      spec.precision < 0 ? text : text.substr(0, byte_of_character(text, static_cast<std::size_t>(spec.precision)));
  FormatSpec plain = spec;
  if (plain.zero && spec.fill == " ") plain.fill = "0";
  return aligned(part, plain, '<');
}

}  // namespace

FormatSpec parse_format(const std::string& text) {
  FormatSpec spec;
  std::size_t at = 0;
  if (!text.empty()) {
    const std::size_t first = text::utf8_length(text[0]);
    if (first < text.size() && is_align(text[first])) {
      spec.fill = text.substr(0, first);
      spec.align = text[first];
      at = first + 1;
    } else if (is_align(text[0])) {
      spec.align = text[at++];
    }
  }
  const auto take = [&](char c) { return at < text.size() && text[at] == c && ++at; };
  for (const char c : {'+', '-', ' '})
    if (take(c)) {
      spec.sign = c;
      break;
    }
  spec.alternate = take('#');
  spec.zero = take('0');
  spec.width = number_at(text, at);
  if (take(',')) spec.group = ',';
  if (take('_')) spec.group = '_';
  if (take('.')) {
    spec.precision = number_at(text, at);
    if (spec.precision < 0) fail_type("Format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) fail_type("Invalid format specifier");
  return spec;
}

std::string aligned(const std::string& text, const FormatSpec& spec, char otherwise) {
  const auto missing = spec.width - static_cast<std::int64_t>(count_characters(text));
  if (missing <= 0) return text;
  const char align = spec.align == '\0' ? otherwise : spec.align;
  const std::int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  return repeated(spec.fill, left) + text + repeated(spec.fill, missing - left);
}

std::string format_value(const Value& value, const FormatSpec& spec) {
  const auto wrong_type = [&] {
    fail_type(fmt::format("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value)));
  };
  const auto is_one_of = [&](std::string_view types) {
    return spec.type == '\0' || types.find(spec.type) != std::string_view::npos;
  };
  if (value.is(Kind::string)) {
    if (!is_one_of("s")) wrong_type();
    return text_text(value.bytes(), spec);
  }
  if (!value.is_number()) fail_type(fmt::format("unsupported format string passed to {}.__format__", type_name(value)));
  if (value.is_whole() && spec.type == 'c') {
    std::string text;
    if (value.as_int() < 0 || value.as_int() > text::kMaxCodePoint) fail_type("%c arg not in range(0x110000)");
    text::append_utf8(text, static_cast<char32_t>(value.as_int()));
    return aligned(text, spec, '<');
  }
  if (value.is_whole() && is_one_of("bdnoxX")) {
    if (spec.precision >= 0) fail_type("Precision not allowed in integer format specifier");
    return whole_text(value.as_int(), spec);
  }
  if (!is_one_of("eEfFgGn%")) wrong_type();
  return real_text(value.as_real(), spec);
}

std::string format_one(const Value& value, const std::string& specification) {
  if (specification.empty()) return to_str(value);
  return format_value(value, parse_format(specification));
}

}  // namespace hone::jinja
