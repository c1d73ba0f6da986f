// str() and repr(). Values are nested at most kMaxDepth deep; the text's size is checked as it grows.
#include "text/jinja/print.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "text/jinja/budget.h"
#include "text/jinja/case.h"
#include "text/jinja/fault.h"
#include "text/jinja/run.h"
#include "text/jinja/text_ops.h"
#include "text/unicode/unicode.h"

namespace hone::jinja {
namespace {

void append_repr(std::string& to, const Value& value);

void add(std::string& to, std::string_view part) {
  Budget::check_text(to.size() + part.size());
  Budget::take_steps(1);
  to += part;
}

template <class Each>
void append_list(std::string& to, std::size_t size, Each&& each) {
  for (std::size_t i = 0; i < size; ++i) {
    if (i) add(to, ", ");
    each(i);
  }
}

void append_dict(std::string& to, const Dict& dict) {
  add(to, "{");
  append_list(to, dict.size(), [&](std::size_t i) {
    append_repr(to, dict.entries()[i].first);
    add(to, ": ");
    append_repr(to, dict.entries()[i].second);
  });
  add(to, "}");
}

void append_view(std::string& to, const View& view, const char* name) {
  add(to, name);
  add(to, "([");
  const auto& entries = view.dict.dict().entries();
  append_list(to, entries.size(), [&](std::size_t i) {
    if (view.what == View::What::keys) return append_repr(to, entries[i].first);
    if (view.what == View::What::values) return append_repr(to, entries[i].second);
    add(to, "(");
    append_repr(to, entries[i].first);
    add(to, ", ");
    append_repr(to, entries[i].second);
    add(to, ")");
  });
  add(to, "])");
}

// Spaces can hold themselves: they are printed only a few levels deep.
void append_space(std::string& to, const Space& space) {
  thread_local int depth = 0;
  struct Inside {
    Inside() { ++depth; }
    ~Inside() { --depth; }
  } inside;
  if (depth > 8) fail("a namespace printed inside itself");
  add(to, "<Namespace ");
  append_dict(to, space.attributes);
  add(to, ">");
}

void append_sequence(std::string& to, const Value& value) {
  const Values& items = value.items();
  const bool tuple = value.is(Kind::tuple);
  add(to, tuple ? "(" : "[");
  append_list(to, items.size(), [&](std::size_t i) { append_repr(to, items[i]); });
  add(to, tuple ? (items.size() == 1 ? ",)" : ")") : "]");
}

void append_repr(std::string& to, const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
      return add(to, "Undefined");
    case Kind::none:
      return add(to, "None");
    case Kind::boolean:
      return add(to, value.as_bool() ? "True" : "False");
    case Kind::integer:
      return add(to, std::to_string(value.as_int()));
    case Kind::real:
      return add(to, repr_of(value.as_real()));
    case Kind::string:
      return add(to, value.markup() ? fmt::format("Markup({})", repr_of(value.bytes())) : repr_of(value.bytes()));
    case Kind::list:
    case Kind::tuple:
      return append_sequence(to, value);
    case Kind::dict:
      return append_dict(to, value.dict());
    case Kind::range: {
      const Range& range = value.as<Range>();
      return add(to, range.step == 1 ? fmt::format("range({}, {})", range.start, range.stop)
                                     : fmt::format("range({}, {}, {})", range.start, range.stop, range.step));
    }
    case Kind::view:
      return append_view(to, value.as<View>(), type_name(value));
    case Kind::space:
      return append_space(to, value.as<Space>());
    case Kind::loop: {
      Loop& loop = value.as<Loop>();
      return add(to, fmt::format("<LoopContext {}/{}>", loop.index0 + 1, loop.length()));
    }
    case Kind::macro: {
      const std::string& name = value.as<Macro>().name;
      return add(to, name.empty() ? "<Macro anonymous>" : fmt::format("<Macro {}>", repr_of(name)));
    }
    default:
      return add(to, fmt::format("<{} object>", type_name(value)));
  }
}

bool needs_escape(char32_t c, char32_t quote) { return c == quote || c == '\\' || !is_printable(c); }

void append_escape(std::string& to, char32_t c) {
  switch (c) {
    case '\n':
      to += "\\n";
      return;
    case '\r':
      to += "\\r";
      return;
    case '\t':
      to += "\\t";
      return;
    default:
      break;
  }
  if (c < 0x7F && is_printable(c)) {
    to += '\\';
    to += static_cast<char>(c);
  } else if (c <= 0xFF) {
    to += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
  } else if (c <= 0xFFFF) {
    to += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  } else {
    to += fmt::format("\\U{:08x}", static_cast<unsigned>(c));
  }
}

}  // namespace

std::string repr_of(std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = text::next_code_point(text, at);
    if (needs_escape(c, static_cast<char32_t>(quote)))
      append_escape(out, c);
    else
      out += text.substr(begin, at - begin);
  }
  return out + quote;
}

std::string repr_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = text.find('e');
  const int exponent = std::stoi(std::string(text.substr(e + 1)));
  const bool negative = text[0] == '-';
  std::string digits;
  for (const char c : text.substr(negative, e - negative))
    if (c != '.') digits += c;
  const std::string sign = negative ? "-" : "";
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    if (count > 1) digits.insert(1, ".");
    return fmt::format("{}{}e{}{:02}", sign, digits, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  return sign + digits.insert(static_cast<std::size_t>(exponent + 1), ".");
}

std::string to_repr(const Value& value) {
  std::string out;
  append_repr(out, value);
  return out;
}

std::string to_str(const Value& value) {
  if (value.is(Kind::string)) return value.bytes();
  if (value.is(Kind::undefined)) return "";
  return to_repr(value);
}

Value soft_str(const Value& value) {
  return value.is(Kind::string) ? value : traced_to(source_of(value), Value::string(to_str(value)));
}

Value escaped(const Value& value) {
  if (value.is(Kind::string) && value.markup()) return value;
  return traced_to(source_of(value), Value::string(escaped_html(to_str(value)), true));
}

}  // namespace hone::jinja
