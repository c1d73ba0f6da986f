// Filters on numbers.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "text/jinja/call.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"

namespace hone::jinja {
namespace {

// The digits of int() and float(): without blanks around them and single underscores between digits; "" if wrong.
std::string plain_digits(const std::string& text) {
  const std::string_view stripped = strip(text, std::nullopt);
  std::string out;
  for (std::size_t i = 0; i < stripped.size(); ++i) {
    const auto alnum = [&](std::size_t at) {
      return at < stripped.size() && std::isalnum(static_cast<unsigned char>(stripped[at]));
    };
    if (stripped[i] != '_')
      out += stripped[i];
    else if (i == 0 || !alnum(i - 1) || !alnum(i + 1))
      return "";
  }
  return out;
}

std::optional<std::int64_t> parse_whole(const std::string& text, std::int64_t base) {
  std::string digits = plain_digits(text);
  bool negative = false;
  if (!digits.empty() && (digits[0] == '+' || digits[0] == '-')) {
    negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  const std::string prefix = to_lower(std::string_view(digits).substr(0, 2));
  const std::int64_t named = prefix == "0x" ? 16 : prefix == "0o" ? 8 : prefix == "0b" ? 2 : 0;
  if (named != 0 && (base == named || base == 0)) {
    digits.erase(0, 2);
    base = named;
  } else if (base == 0) {
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos)
      return std::nullopt;
    base = 10;
  }
  if (digits.empty() || digits[0] == '-') return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (error != std::errc() || value > static_cast<std::uint64_t>(INT64_MAX))
    fail("an integer that does not fit 64 bits");
  return negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
}

std::optional<double> parse_real(const std::string& text) {
  std::string digits = plain_digits(text);
  if (!digits.empty() && digits[0] == '+' && digits.size() > 1 && digits[1] != '-') digits.erase(0, 1);
  const std::string word = to_lower(digits);
  const bool negative = !word.empty() && word[0] == '-';
  const std::string_view name = std::string_view(word).substr(negative);
  if (name == "inf" || name == "infinity") return negative ? -HUGE_VAL : HUGE_VAL;
  if (name == "nan") return std::nan("");
  if (name.empty() || !(std::isdigit(static_cast<unsigned char>(name[0])) || name[0] == '.')) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) value = std::strtod(digits.c_str(), nullptr);
  return value;
}

// int(float): nothing for NaN and infinity.
std::optional<Value> truncated(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::abs(value) >= 9.2e18) fail("an integer that does not fit 64 bits");
  return Value::integer(static_cast<std::int64_t>(value));
}

Value to_int(const Value& input, Call& call) {
  const auto bound = call.bind({"default", "base"});
  const Value otherwise = bound[0].value_or(Value::integer(0));
  require_defined(input);
  if (input.is_whole()) return Value::integer(input.as_int());
  if (input.is(Kind::real)) {
    if (std::isinf(input.as_real())) fail("cannot convert float infinity to integer");
    return truncated(input.as_real()).value_or(otherwise);
  }
  if (!input.is(Kind::string)) return otherwise;
  const std::int64_t base = int_or(bound[1], "int", 10);
  if (base != 0 && (base < 2 || base > 36)) fail_type("int() base must be >= 2 and <= 36, or 0");
  if (const auto whole = parse_whole(input.bytes(), base)) return Value::integer(*whole);
  const auto real = parse_real(input.bytes());  // so that "42.23" gives 42
  return real ? truncated(*real).value_or(otherwise) : otherwise;
}

Value to_float(const Value& input, Call& call) {
  const auto bound = call.bind({"default"});
  require_defined(input);
  if (input.is_number()) return Value::real(input.as_real());
  const auto real = input.is(Kind::string) ? parse_real(input.bytes()) : std::nullopt;
  return real ? Value::real(*real) : bound[0].value_or(Value::real(0));
}

Value absolute(const Value& input, Call& call) {
  call.no_arguments();
  real_of(input, "abs");
  if (input.is(Kind::real)) return Value::real(std::abs(input.as_real()));
  return input.as_int() < 0 ? negated(input) : Value::integer(input.as_int());
}

// Python's round(): half to even, on the decimal digits of the number.
double rounded(double value, std::int64_t digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < -300) return std::copysign(0.0, value);
  if (digits >= 0) return std::strtod(fmt::format("{:.{}f}", value, digits).c_str(), nullptr);
  const double power = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / power) * power;
}

Value rounded_whole(std::int64_t value, std::int64_t digits) {
  if (digits >= 0) return Value::integer(value);
  if (digits < -18) return Value::integer(0);
  std::int64_t power = 1;
  for (; digits < 0; ++digits) power *= 10;
  std::int64_t quotient = value / power, rest = value % power;
  if (rest < 0) rest += power, --quotient;
  if (rest * 2 > power || (rest * 2 == power && quotient % 2 != 0)) ++quotient;
  return Value::integer(quotient * power);
}

Value to_rounded(const Value& input, Call& call) {
  const auto bound = call.bind({"precision", "method"});
  const std::int64_t digits = int_or(bound[0], "round", 0);
  const std::string method = bound[1] ? to_str(*bound[1]) : "common";
  if (method != "common" && method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  real_of(input, "round");
  if (method == "common")
    return input.is_whole() ? rounded_whole(input.as_int(), digits) : Value::real(rounded(input.as_real(), digits));
  const Value power = arithmetic('p', Value::integer(10), Value::integer(digits));
  const double scaled = arithmetic('*', input, power).as_real();
  const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return arithmetic('/', truncated(whole).value_or(Value::real(whole)), power);
}

Value file_size(const Value& input, Call& call) {
  const auto bound = call.bind({"binary"});
  const bool binary = truth_or(bound[0], false);
  const auto size =
      input.is(Kind::string) ? parse_real(input.bytes()) : std::optional(real_of(input, "filesizeformat"));
  if (!size) fail_type("could not convert string to float");
  const double base = binary ? 1024 : 1000;
  if (*size == 1) return Value::string("1 Byte");
  if (*size < base) return Value::string(fmt::format("{} Bytes", static_cast<std::int64_t>(*size)));
  double unit = base * base;
  const std::string_view letters = binary ? "KMGTPEZY" : "kMGTPEZY";
  std::size_t i = 0;
  for (; i + 1 < letters.size() && *size >= unit; ++i) unit *= base;
  return Value::string(fmt::format("{:.1f} {}{}", base * *size / unit, letters[i], binary ? "iB" : "B"));
}

constexpr Named<Filter> kNumberFilters[] = {
    {"abs", absolute}, {"filesizeformat", file_size}, {"float", to_float}, {"int", to_int}, {"round", to_rounded}};

}  // namespace

std::span<const Named<Filter>> number_filters() { return kNumberFilters; }

}  // namespace hone::jinja
