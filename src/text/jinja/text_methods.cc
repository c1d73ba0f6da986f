// The methods of Python's str. Marked texts stay marked, and escape what is put into them.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/call.h"
#include "text/jinja/case.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/jinja/run.h"
#include "text/jinja/text_ops.h"
#include "text/unicode/unicode.h"

namespace hone::jinja {
namespace {

using TextMethod = Value (*)(const Value& self, Call& call);

Value same_mark(const Value& self, std::string text) { return Value::string(std::move(text), self.markup()); }

template <std::string (*kChange)(std::string_view)>
Value changed(const Value& self, Call& call) {
  call.no_arguments();
  return same_mark(self, kChange(self.bytes()));
}

template <bool (*kHolds)(std::string_view)>
Value whole_is(const Value& self, Call& call) {
  call.no_arguments();
  return Value::boolean(kHolds(self.bytes()));
}

template <bool (*kHolds)(char32_t)>
Value each_is(const Value& self, Call& call) {
  call.no_arguments();
  return Value::boolean(all_of(self.bytes(), kHolds));
}

Value is_ascii(const Value& self, Call& call) {
  call.no_arguments();
  return Value::boolean(self.as<Text>().ascii());
}
Value is_all_printable(const Value& self, Call& call) {
  call.no_arguments();
  return Value::boolean(self.bytes().empty() || all_of(self.bytes(), is_printable));
}

void no_keywords(const Call& call) {
  if (!call.named.empty()) fail_type(fmt::format("str.{}() takes no keyword arguments", call.what));
}

template <Side kSide>
Value stripped(const Value& self, Call& call) {
  no_keywords(call);
  const auto bound = call.bind({"chars"});
  std::optional<std::string_view> chars;
  if (bound[0] && !bound[0]->is(Kind::none)) chars = text_of(*bound[0], "strip");
  return part_of(self, strip(self.bytes(), chars, kSide));
}

Value parts_value(const Value& self, const Parts& parts) {
  Values values;
  for (const std::string_view part : parts) values.push_back(part_of(self, part));
  return Value::list(std::move(values));
}

template <bool kFromRight>
Value split_up(const Value& self, Call& call) {
  const auto bound = call.bind({"sep", "maxsplit"});
  const std::int64_t most = int_or(bound[1], "maxsplit", -1);
  const std::string& text = self.bytes();
  if (!bound[0] || bound[0]->is(Kind::none))
    return parts_value(self, kFromRight ? rsplit_on_space(text, most) : split_on_space(text, most));
  const std::string& separator = text_of(*bound[0], "split");
  if (separator.empty()) fail_type("empty separator");
  return parts_value(self, kFromRight ? rsplit_on(text, separator, most) : split_on(text, separator, most));
}

Value lines(const Value& self, Call& call) {
  const auto bound = call.bind({"keepends"});
  return parts_value(self, split_lines(self.bytes(), truth_or(bound[0], false)));
}

template <bool kFromRight>
Value partitioned(const Value& self, Call& call) {
  no_keywords(call);
  const auto bound = call.bind({"sep"}, 1);
  const std::string &text = self.bytes(), &separator = text_of(*bound[0], "partition");
  if (separator.empty()) fail_type("empty separator");
  const std::size_t at = kFromRight ? rfind_bytes(text, separator) : find_bytes(text, separator);
  Values parts(3, same_mark(self, ""));
  if (at == std::string::npos) {
    parts[kFromRight ? 2 : 0] = self;
  } else {
    const std::string_view all = text;
    parts = {part_of(self, all.substr(0, at)), part_of(self, all.substr(at, separator.size())),
             part_of(self, all.substr(at + separator.size()))};
  }
  return Value::tuple(std::move(parts));
}

// The part of a text between two optional character positions; begin: its first byte. false: the start is behind the
// end.
bool window(const Value& self, const std::optional<Value>& start, const std::optional<Value>& stop,
            std::string_view& part, std::size_t& begin) {
  const auto size = static_cast<std::int64_t>(self.length());
  const auto clipped = [&](const std::optional<Value>& at, std::int64_t otherwise) {
    const std::int64_t place = at && !at->is(Kind::none) ? int_of(*at, "index") : otherwise;
    return std::max<std::int64_t>(0, place < 0 ? place + size : place);
  };
  const std::int64_t from = clipped(start, 0), to = std::min(clipped(stop, size), size);
  part = {};
  begin = 0;
  if (from > to) return false;
  const std::string_view text = self.bytes();
  begin = byte_of_character(text, static_cast<std::size_t>(from));
  part = text.substr(begin);
  if (to < size) part = part.substr(0, byte_of_character(part, static_cast<std::size_t>(to - from)));
  return true;
}

template <bool kFromRight, bool kMustBeThere>
Value found(const Value& self, Call& call) {
  no_keywords(call);
  const auto bound = call.bind({"sub", "start", "end"}, 1);
  std::string_view part;
  std::size_t begin = 0;
  const std::string& needle = text_of(*bound[0], call.what);
  if (window(self, bound[1], bound[2], part, begin)) {
    const std::size_t at = kFromRight ? rfind_bytes(part, needle) : find_bytes(part, needle);
    if (at != std::string::npos)
      return Value::integer(
          static_cast<std::int64_t>(count_characters(std::string_view(self.bytes()).substr(0, begin + at))));
  }
  if (kMustBeThere) fail_type("substring not found");
  return Value::integer(-1);
}

Value counted(const Value& self, Call& call) {
  no_keywords(call);
  const auto bound = call.bind({"sub", "start", "end"}, 1);
  std::string_view part;
  std::size_t begin = 0;
  const std::string& needle = text_of(*bound[0], "count");
  if (!window(self, bound[1], bound[2], part, begin)) return Value::integer(0);
  return Value::integer(static_cast<std::int64_t>(count_of(part, needle)));
}

template <bool kAtEnd>
Value begins_or_ends(const Value& self, Call& call) {
  no_keywords(call);
  const auto bound = call.bind({"affix", "start", "end"}, 1);
  std::string_view part;
  std::size_t begin = 0;
  const bool any = window(self, bound[1], bound[2], part, begin);
  const auto holds = [&](const Value& affix) {
    const std::string& text = text_of(affix, call.what);
    return any && (kAtEnd ? part.ends_with(text) : part.starts_with(text));
  };
  if (!bound[0]->is(Kind::tuple)) return Value::boolean(holds(*bound[0]));
  const Values& all = bound[0]->items();
  return Value::boolean(std::any_of(all.begin(), all.end(), holds));
}

template <bool kSuffix>
Value without_affix(const Value& self, Call& call) {
  const auto bound = call.bind({"affix"}, 1);
  const std::string &affix = text_of(*bound[0], call.what), &text = self.bytes();
  if (kSuffix ? !text.ends_with(affix) : !text.starts_with(affix)) return self;
  const std::string_view all = text;
  return part_of(self, kSuffix ? all.substr(0, text.size() - affix.size()) : all.substr(affix.size()));
}

Value replaced_in(const Value& self, Call& call) {
  no_keywords(call);
  const auto bound = call.bind({"old", "new", "count"}, 2);
  text_of(*bound[1], "replace");
  const Value to = self.markup() ? escaped(*bound[1]) : *bound[1];
  text_of(*bound[0], "replace");
  return to_value(replaced(self, *bound[0], to, int_or(bound[2], "count", -1)), self.markup());
}

Value joined_by(const Value& self, Call& call) {
  no_keywords(call);
  const auto bound = call.bind({"iterable"}, 1);
  Traced out;
  bool first = true;
  std::int64_t place = 0;
  for (const Value& item : to_values(*bound[0])) {
    if (!item.is(Kind::string) && !self.markup())
      fail_type(fmt::format("sequence item {}: expected str instance, {} found", place, type_name(item)));
    if (!first) out.add(self);
    out.add(self.markup() ? escaped(item) : item);
    Budget::check_text(out.text.size());
    first = false;
    ++place;
  }
  return to_value(std::move(out), self.markup());
}

// Fills with `fill` up to a width in characters; left: the share of it on the left.
Value padded(const Value& self, std::int64_t width, const std::string& fill, std::int64_t left) {
  const std::int64_t missing = width - static_cast<std::int64_t>(self.length());
  if (missing <= 0) return self;
  const std::string before = repeated(fill, left < 0 ? missing : std::min(left, missing));
  const std::string after = repeated(fill, left < 0 ? 0 : missing - std::min(left, missing));
  return same_mark(self, before + self.bytes() + after);
}

template <char kHow>
Value justified(const Value& self, Call& call) {
  no_keywords(call);
  const auto bound = call.bind({"width", "fillchar"}, 1);
  const std::int64_t width = int_of(*bound[0], call.what);
  const std::string fill = bound[1] ? text_of(*bound[1], call.what) : " ";
  if (count_characters(fill) != 1) fail_type("The fill character must be exactly one character long");
  const std::int64_t missing = std::max<std::int64_t>(0, width - static_cast<std::int64_t>(self.length()));
  // Of an odd rest Python puts the larger half on the left when the width is odd.
  const std::int64_t half = missing / 2 + (missing & width & 1);
  return padded(self, width, fill, kHow == 'l' ? 0 : kHow == 'r' ? -1 : half);
}

Value zero_filled(const Value& self, Call& call) {
  const auto bound = call.bind({"width"}, 1);
  const Value filled = padded(self, int_of(*bound[0], "zfill"), "0", -1);
  std::string text = filled.bytes();
  const std::size_t zeros = text.size() - self.bytes().size();
  if (zeros > 0 && !self.bytes().empty() && (self.bytes()[0] == '+' || self.bytes()[0] == '-'))
    std::swap(text[0], text[zeros]);
  return same_mark(self, std::move(text));
}

Value tabs_expanded(const Value& self, Call& call) {
  const auto bound = call.bind({"tabsize"});
  const std::int64_t size = int_or(bound[0], "expandtabs", 8);
  std::string out;
  std::int64_t column = 0;
  for (const char c : self.bytes()) {
    if (c == '\t') {
      const std::int64_t count = size > 0 ? size - column % size : 0;
      out += repeated(" ", count);
      column += count;
      Budget::check_text(out.size());
    } else {
      out += c;
      column = c == '\n' || c == '\r' ? 0 : column + !text::is_continuation(c);
    }
  }
  return same_mark(self, std::move(out));
}

[[noreturn]] Value unsupported(const Value&, Call& call) {
  fail(fmt::format("the method '{}' of 'str' is not supported", call.what));
}

constexpr Named<TextMethod> kMethods[] = {
    {"capitalize", changed<capitalize>},
    {"casefold", changed<fold_case>},
    {"center", justified<'c'>},
    {"count", counted},
    {"encode", unsupported},
    {"endswith", begins_or_ends<true>},
    {"expandtabs", tabs_expanded},
    {"find", found<false, false>},
    {"format", [](const Value& self, Call& call) { return format_braces(self, call); }},
    {"format_map",
     [](const Value& self, Call& call) {
       no_keywords(call);
       const auto bound = call.bind({"mapping"}, 1);
       Call inner{call.run, "format_map"};
       if (!bound[0]->is(Kind::dict)) fail_type("format_map() takes a mapping");
       for (const auto& [key, value] : bound[0]->dict().entries())
         if (key.is(Kind::string)) inner.named.emplace_back(key.bytes(), value);
       return format_braces(self, inner);
     }},
    {"index", found<false, true>},
    {"isalnum", each_is<is_alnum>},
    {"isalpha", each_is<is_alpha>},
    {"isascii", is_ascii},
    {"isdecimal", each_is<is_decimal>},
    {"isdigit", each_is<is_digit>},
    {"isidentifier", unsupported},
    {"islower", whole_is<all_lower>},
    {"isnumeric", each_is<is_numeric>},
    {"isprintable", is_all_printable},
    {"isspace", each_is<is_space>},
    {"istitle", whole_is<all_title>},
    {"isupper", whole_is<all_upper>},
    {"join", joined_by},
    {"ljust", justified<'l'>},
    {"lower", changed<lower>},
    {"lstrip", stripped<Side::left>},
    {"maketrans", unsupported},
    {"partition", partitioned<false>},
    {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>},
    {"replace", replaced_in},
    {"rfind", found<true, false>},
    {"rindex", found<true, true>},
    {"rjust", justified<'r'>},
    {"rpartition", partitioned<true>},
    {"rsplit", split_up<true>},
    {"rstrip", stripped<Side::right>},
    {"split", split_up<false>},
    {"splitlines", lines},
    {"startswith", begins_or_ends<false>},
    {"strip", stripped<Side::both>},
    {"swapcase", changed<swap_case>},
    {"title", changed<title>},
    {"translate", unsupported},
    {"upper", changed<upper>},
    {"zfill", zero_filled},
};

}  // namespace

bool has_text_method(std::string_view name) {
  return std::any_of(std::begin(kMethods), std::end(kMethods), [&](const auto& entry) { return entry.first == name; });
}

Value call_text_method(const Value& self, std::string_view name, Call& call) {
  const auto found =
      std::find_if(std::begin(kMethods), std::end(kMethods), [&](const auto& entry) { return entry.first == name; });
  Source source = source_of(self);
  for (const Value& argument : call.positional) source = mixed(source, source_of(argument));
  for (const auto& [key, argument] : call.named) source = mixed(source, source_of(argument));
  return traced_to(source, found->second(self, call));
}

}  // namespace hone::jinja
