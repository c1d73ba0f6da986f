// "%s" % values and "{}".format(...).
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "base/strings.h"
#include "text/jinja/budget.h"
#include "text/jinja/call.h"
#include "text/jinja/fault.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"
#include "text/unicode/unicode.h"

namespace hone::jinja {
namespace {

class Percent {
 public:
  Percent(const Value& text, const Value& values) : text_(text.bytes()), values_(values), markup_(text.markup()) {}

  std::string run() {
    std::size_t at = 0;
    for (std::size_t percent; (percent = text_.find('%', at)) != std::string::npos;) {
      add(text_.substr(at, percent - at));
      at = percent + 1;
      conversion(at);
    }
    add(text_.substr(at));
    const bool mapping = values_.is(Kind::dict);
    const std::size_t given = values_.is(Kind::tuple) ? values_.items().size() : 1;
    if (!mapping && used_ < given) fail_type("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  void add(std::string_view part) {
    Budget::check_text(out_.size() + part.size());
    out_ += part;
  }
  char now(std::size_t at) const {
    if (at >= text_.size()) fail_type("incomplete format");
    return text_[at];
  }

  Value next_value() {
    const bool tuple = values_.is(Kind::tuple);
    if (used_ >= (tuple ? values_.items().size() : 1)) fail_type("not enough arguments for format string");
    return tuple ? values_.items()[used_++] : (++used_, values_);
  }

  Value keyed_value(std::size_t& at) {
    const std::size_t end = text_.find(')', at);
    if (end == std::string::npos) fail_type("incomplete format key");
    if (!values_.is(Kind::dict)) fail_type("format requires a mapping");
    const Value* value = values_.dict().find(std::string_view(text_).substr(at, end - at));
    if (!value) fail(fmt::format("no key {}", hone::quoted(text_.substr(at, end - at))));
    at = end + 1;
    return *value;
  }

  int size_at(std::size_t& at) {
    if (now(at) == '*') {
      ++at;
      return static_cast<int>(std::min<std::int64_t>(int_of(next_value(), "* wants int"), 1'000'000));
    }
    std::int64_t size = -1;
    for (; now(at) >= '0' && now(at) <= '9'; ++at) {
      size = std::max<std::int64_t>(size, 0) * 10 + (now(at) - '0');
      if (size > 1'000'000) fail_type("too many digits in a format");
    }
    return static_cast<int>(size);
  }

  void conversion(std::size_t& at) {
    std::optional<Value> value;
    if (now(at) == '(') value = keyed_value(++at);
    FormatSpec spec;
    bool left = false;
    for (;; ++at) {
      const char c = now(at);
      if (c == '-')
        left = true;
      else if (c == '+')
        spec.sign = '+';
      else if (c == ' ')
        spec.sign = spec.sign == '+' ? '+' : ' ';
      else if (c == '#')
        spec.alternate = true;
      else if (c == '0')
        spec.zero = true;
      else
        break;
    }
    spec.width = size_at(at);
    if (spec.width < -1) left = true, spec.width = -spec.width;
    if (now(at) == '.') spec.precision = std::max(0, size_at(++at));
    while (now(at) == 'h' || now(at) == 'l' || now(at) == 'L') ++at;
    spec.type = now(at++);
    if (spec.type == '%') return add("%");
    if (left) spec.align = '<', spec.zero = false;
    add(converted(value ? *value : next_value(), spec));
  }

  std::string shown(const Value& value, char type) const {
    const std::string text = type == 's' ? to_str(value) : to_repr(value);
    return markup_ && !(type == 's' && value.markup()) ? escaped_html(text) : text;
  }

  std::string converted(const Value& value, FormatSpec spec) const {
    const char type = spec.type;
    switch (type) {
      case 's':
      case 'r':
      case 'a': {
        std::string text = shown(value, type);
        if (spec.precision >= 0)
          text = text.substr(0, byte_of_character(text, static_cast<std::size_t>(spec.precision)));
        return aligned(text, spec, '>');
      }
      case 'c':
        if (value.is(Kind::string)) {
          if (value.length() != 1) fail_type("%c requires int or char");
          return aligned(value.bytes(), spec, '>');
        }
        int_of(value, "%c");
        return aligned(format_one(value, "c"), spec, '>');
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return whole(value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return format_value(Value::real(real_of(value, fmt::format("%{}", type))), spec);
      default:
        fail_type(fmt::format("unsupported format character '{}'", escape_for_terminal(std::string(1, type))));
    }
  }

  static std::string whole(const Value& value, FormatSpec spec) {
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    std::int64_t number = 0;
    if (decimal && value.is(Kind::real)) {
      if (!(std::abs(value.as_real()) < 9e18)) fail("cannot convert float to integer");
      number = static_cast<std::int64_t>(value.as_real());
    } else {
      number = int_of(value, fmt::format("%{} format", spec.type));
    }
    if (decimal) spec.type = 'd';
    const int digits = std::exchange(spec.precision, -1);
    if (digits > 0) {  // so many digits at least
      FormatSpec inner;
      inner.type = spec.type;
      std::string text = format_value(Value::integer(number), inner);
      const bool negative = text[0] == '-';
      if (static_cast<int>(text.size()) - negative < digits)
        text.insert(negative, static_cast<std::size_t>(digits) - text.size() + negative, '0');
      if (!negative && spec.sign != '-') text.insert(0, 1, spec.sign);
      return aligned(text, spec, '>');
    }
    return format_value(Value::integer(number), spec);
  }

  const std::string& text_;
  const Value& values_;
  const bool markup_;
  std::string out_;
  std::size_t used_ = 0;
};

class Braces {
 public:
  Braces(const Value& text, Call& call) : call_(call), markup_(text.markup()) {}

  // depth: fields inside format specifications, one level as in Python.
  std::string run(std::string_view text, int depth) {
    if (depth > 2) fail_type("Max string recursion exceeded");
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (c != '{' && c != '}') {
        out += c;
        ++at;
        continue;
      }
      if (at + 1 < text.size() && text[at + 1] == c) {
        out += c;
        at += 2;
        continue;
      }
      if (c == '}') fail_type("Single '}' encountered in format string");
      out += field(inside(text, at), depth);
      Budget::check_text(out.size());
    }
    return out;
  }

 private:
  // The text between a field's braces; moves behind it.
  static std::string_view inside(std::string_view text, std::size_t& at) {
    const std::size_t begin = at + 1;
    for (int depth = 0; at < text.size(); ++at) {
      if (text[at] == '{') ++depth;
      if (text[at] == '}' && --depth == 0) return text.substr(begin, at++ - begin);
    }
    fail_type("expected '}' before end of string");
  }

  std::string field(std::string_view text, int depth) {
    std::size_t end = 0;
    for (bool bracket = false; end < text.size(); ++end) {
      if (text[end] == '[') bracket = true;
      if (text[end] == ']') bracket = false;
      if (!bracket && (text[end] == ':' || text[end] == '!')) break;
    }
    Value value = look_up(text.substr(0, end));
    if (end < text.size() && text[end] == '!') {
      const char how = end + 1 < text.size() ? text[end + 1] : '\0';
      if (how != 's' && how != 'r' && how != 'a') fail_type("Unknown conversion specifier");
      value = Value::string(how == 's' ? to_str(value) : to_repr(value));
      end += 2;
      if (end < text.size() && text[end] != ':') fail_type("expected ':' after conversion specifier");
    }
    const std::string spec = end < text.size() ? run(text.substr(end + 1), depth + 1) : "";
    if (!markup_ || depth > 1) return format_one(value, spec);
    if (value.is(Kind::string) && value.markup()) return value.bytes();
    return escaped_html(format_one(value, spec));
  }

  Value first_value(const std::string& name) {
    const auto number = parse_int(name);
    if (name.empty() || (number && *number >= 0)) {
      const std::size_t place = name.empty() ? automatic_++ : static_cast<std::size_t>(*number);
      if (!name.empty() && automatic_ > 0)
        fail_type("cannot switch from automatic field numbering to manual field specification");
      if (place >= call_.positional.size())
        fail(fmt::format("Replacement index {} out of range for positional args tuple", place));
      return call_.positional[place];
    }
    for (const auto& [known, value] : call_.named)
      if (known == name) return value;
    fail(fmt::format("no key {}", hone::quoted(name)));
  }

  // name, name.attribute, name[key]
  Value look_up(std::string_view path) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = first_value(std::string(path.substr(0, end)));
    for (path.remove_prefix(end); !path.empty();) {
      if (path[0] == '.') {
        const std::size_t stop = std::min(path.find_first_of(".[", 1), path.size());
        value = get_attribute(call_.run, value, std::string(path.substr(1, stop - 1)));
        path.remove_prefix(stop);
      } else {
        const std::size_t stop = path.find(']');
        if (stop == std::string_view::npos) fail_type("Missing ']' in format string");
        const std::string key(path.substr(1, stop - 1));
        const auto number = parse_int(key);
        value = get_item(call_.run, value, number && *number >= 0 ? Value::integer(*number) : Value::string(key));
        path.remove_prefix(stop + 1);
        if (!path.empty() && path[0] != '.' && path[0] != '[')
          fail_type("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Call& call_;
  const bool markup_;
  std::size_t automatic_ = 0;
};

}  // namespace

Value format_percent(const Value& text, const Value& values) {
  return Value::string(Percent(text, values).run(), text.markup());
}

Value format_braces(const Value& text, Call& call) {
  return Value::string(Braces(text, call).run(text.bytes(), 1), text.markup());
}

}  // namespace hone::jinja
