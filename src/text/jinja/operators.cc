// Python's arithmetic on numbers, texts and lists. Integers have 64 bits: what does not fit is an error.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/budget.h"
#include "text/jinja/call.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"

namespace hone::jinja {
namespace {

[[noreturn]] void fail_big() { fail("an integer that does not fit 64 bits"); }

[[noreturn]] void fail_operands(const char* sign, const Value& a, const Value& b) {
  require_defined(a);
  require_defined(b);
  fail_type(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", sign, type_name(a), type_name(b)));
}

const char* written(char sign) {
  switch (sign) {
    case '-':
      return "-";
    case '*':
      return "*";
    case '/':
      return "/";
    case 'f':
      return "//";
    case '%':
      return "%";
    default:
      return "** or pow()";
  }
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (a == INT64_MIN && b == -1) fail_big();
  const std::int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

Value whole_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (;;) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) fail_big();
    exponent >>= 1;
    if (exponent == 0) return Value::integer(result);
    if (__builtin_mul_overflow(base, base, &base)) fail_big();
  }
}

Value power(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole() && b.as_int() >= 0) return whole_power(a.as_int(), b.as_int());
  const double base = a.as_real(), exponent = b.as_real();
  if (base == 0 && exponent < 0) fail("0.0 cannot be raised to a negative power");
  if (base < 0 && std::isfinite(exponent) && std::trunc(exponent) != exponent)
    fail("a negative number to a broken power: complex numbers are not supported");
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) fail("Numerical result out of range");
  return Value::real(result);
}

Value whole_arithmetic(char sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (sign) {
    case '-':
      if (__builtin_sub_overflow(a, b, &result)) fail_big();
      return Value::integer(result);
    case '*':
      if (__builtin_mul_overflow(a, b, &result)) fail_big();
      return Value::integer(result);
    case '/':
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case 'f':
      return Value::integer(floor_divide(a, b));
    default:
      return Value::integer(b == -1 ? 0 : a % b + ((a % b != 0 && (a < 0) != (b < 0)) ? b : 0));
  }
}

Value real_arithmetic(char sign, double a, double b) {
  switch (sign) {
    case '-':
      return Value::real(a - b);
    case '*':
      return Value::real(a * b);
    case '/':
      return Value::real(a / b);
    default:
      break;
  }
  double rest = std::fmod(a, b);
  if (rest != 0 && (b < 0) != (rest < 0)) rest += b;
  if (rest == 0) rest = std::copysign(0.0, b);
  if (sign == '%') return Value::real(rest);
  // As CPython: the quotient of what is left is whole but for rounding.
  const double quotient = (a - rest) / b;
  if (quotient == 0) return Value::real(std::copysign(0.0, a / b));
  const double floored = std::floor(quotient);
  return Value::real(floored + (quotient - floored > 0.5));
}

Value repeated_value(const Value& value, std::int64_t times) {
  if (value.is(Kind::string)) return Value::string(repeated(value.bytes(), times), value.markup());
  Values items;
  const std::size_t size = value.items().size(), count = size == 0 || times <= 0 ? 0 : static_cast<std::size_t>(times);
  constexpr std::size_t kTooMany = std::numeric_limits<std::int32_t>::max();  // more than any budget, and no overflow
  Budget::take_bytes(count == 0 ? 0 : std::min(size, kTooMany) * std::min(count, kTooMany / size + 1) * sizeof(Value));
  for (std::size_t i = 0; i < count; ++i) {
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return value.is(Kind::list) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

bool repeats(const Value& value) { return value.is(Kind::string) || value.is_sequence(); }

Value joined(const Value& a, const Value& b) {
  Budget::check_text(a.bytes().size() + b.bytes().size());
  const bool markup = a.markup() || b.markup();
  Traced made;
  made.add(markup ? escaped(a) : a);
  made.add(markup ? escaped(b) : b);
  return to_value(std::move(made), markup);
}

}  // namespace

Value add(const Value& a, const Value& b) {
  if (a.is(Kind::string) && b.is(Kind::string)) return joined(a, b);
  if (a.is_whole() && b.is_whole()) {
    std::int64_t result = 0;
    if (__builtin_add_overflow(a.as_int(), b.as_int(), &result)) fail_big();
    return Value::integer(result);
  }
  if (a.is_number() && b.is_number()) return Value::real(a.as_real() + b.as_real());
  if (a.is_sequence() && a.kind() == b.kind()) {
    Budget::take_bytes((a.items().size() + b.items().size()) * sizeof(Value));
    Values items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return a.is(Kind::list) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  require_defined(a);
  require_defined(b);
  if (a.is(Kind::string)) fail_type(fmt::format("can only concatenate str (not \"{}\") to str", type_name(b)));
  fail_operands("+", a, b);
}

Value arithmetic(char sign, const Value& a, const Value& b) {
  if (sign == '%' && a.is(Kind::string) && !b.is(Kind::undefined)) return format_percent(a, b);
  if (sign == '*' && repeats(a) && b.is_whole()) return repeated_value(a, b.as_int());
  if (sign == '*' && repeats(b) && a.is_whole()) return repeated_value(b, a.as_int());
  if (!a.is_number() || !b.is_number()) fail_operands(written(sign), a, b);
  if (sign == 'p') return power(a, b);
  if ((sign == '/' || sign == 'f' || sign == '%') && b.as_real() == 0) fail("division by zero");
  if (a.is_whole() && b.is_whole()) return whole_arithmetic(sign, a.as_int(), b.as_int());
  return real_arithmetic(sign, a.as_real(), b.as_real());
}

Value negated(const Value& value) {
  if (value.is(Kind::real)) return Value::real(-value.as_real());
  if (!value.is_whole()) {
    require_defined(value);
    fail_type(fmt::format("bad operand type for unary -: '{}'", type_name(value)));
  }
  if (value.as_int() == INT64_MIN) fail_big();
  return Value::integer(-value.as_int());
}

}  // namespace hone::jinja
