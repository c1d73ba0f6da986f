// Filters that make texts of values.
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

template <std::string (*kChange)(std::string_view)>
Value changed_text(const Value& input, Call& call) {
  call.no_arguments();
  const Value text = soft_str(input);
  return Value::string(kChange(text.bytes()), text.markup());
}

// Unlike str.title(): a word begins after white space and some signs only.
std::string title_words(std::string_view text) {
  std::string out;
  std::size_t word = 0;
  const auto add_word = [&](std::size_t end) {
    if (end == word) return;
    const std::size_t first = text::utf8_length(text[word]);
    out += upper(text.substr(word, first)) + lower(text.substr(word + first, end - word - first));
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = text::next_code_point(text, at);
    if (c != '-' && c != '(' && c != '{' && c != '[' && c != '<' && !is_space(c)) continue;
    add_word(begin);
    // What separates is a run of its own, changed by the same rule.
    out += text.substr(begin, at - begin);
    word = at;
  }
  add_word(text.size());
  return out;
}

Value trimmed(const Value& input, Call& call) {
  const auto bound = call.bind({"chars"});
  const Value text = soft_str(input);
  std::optional<std::string_view> chars;
  if (bound[0] && !bound[0]->is(Kind::none)) chars = text_of(*bound[0], "trim");
  return part_of(text, strip(text.bytes(), chars));
}

Value replaced_by(const Value& input, Call& call) {
  const auto bound = call.bind({"old", "new", "count"}, 2);
  const std::int64_t most = bound[2] && !bound[2]->is(Kind::none) ? int_of(*bound[2], "replace") : -1;
  return to_value(replaced(soft_str(input), soft_str(*bound[0]), soft_str(*bound[1]), most));
}

Value as_text(const Value& input, Call& call) {
  call.no_arguments();
  return soft_str(input);
}
Value safe(const Value& input, Call& call) {
  call.no_arguments();
  const Value text = soft_str(input);
  return Value::string(text.bytes(), true, text.origins());
}
Value escape(const Value& input, Call& call) {
  call.no_arguments();
  return escaped(input);
}
Value force_escape(const Value& input, Call& call) {
  call.no_arguments();
  return Value::string(escaped_html(to_str(input)), true);
}

Value indented(const Value& input, Call& call) {
  const auto bound = call.bind({"width", "first", "blank"});
  const bool first = truth_or(bound[1], false), blank = truth_or(bound[2], false);
  const std::string indention =
      bound[0] && bound[0]->is(Kind::string)
          ? (input.is(Kind::string) && input.markup() ? escaped(*bound[0]) : *bound[0]).bytes()
          : repeated(" ", int_or(bound[0], "indent", 4));
  require_defined(input);
  if (!input.is(Kind::string)) fail_type(fmt::format("indent: expected str, got {}", type_name(input)));
  Traced ended;
  ended.add(input);
  ended.add("\n");
  const Value text = to_value(std::move(ended));
  Traced out;
  if (first) out.add(indention);
  bool begun = false;
  for (const std::string_view line : split_lines(text.bytes(), false)) {
    if (begun) {
      out.add("\n");
      if (blank || !line.empty()) out.add(indention);
    }
    out.add(line, text);
    begun = true;
    Budget::check_text(out.text.size());
  }
  return to_value(std::move(out), input.markup());
}

Value truncated(const Value& input, Call& call) {
  const auto bound = call.bind({"length", "killwords", "end", "leeway"});
  const std::int64_t length = int_or(bound[0], "truncate", 255);
  const Value end = bound[2].value_or(Value::string("..."));
  const std::int64_t leeway = bound[3] && !bound[3]->is(Kind::none) ? int_of(*bound[3], "truncate") : 5;
  const auto ends = static_cast<std::int64_t>(count_characters(text_of(end, "truncate")));
  if (length < ends) fail(fmt::format("expected length >= {}, got {}", ends, length));
  if (leeway < 0) fail(fmt::format("expected leeway >= 0, got {}", leeway));
  if (length_of(input) <= length + leeway) return input;
  const std::string& text = text_of(input, "truncate");
  std::string_view part(text.data(), byte_of_character(text, static_cast<std::size_t>(length - ends)));
  if (!truth_or(bound[1], false)) part = rsplit_on(part, " ", 1)[0];
  return add(part_of(input, part), end);
}

Value centered(const Value& input, Call& call) {
  const auto bound = call.bind({"width"});
  Call inner{call.run, "center", {Value::integer(int_or(bound[0], "center", 80))}};
  return call_text_method(soft_str(input), "center", inner);
}

Value word_count(const Value& input, Call& call) {
  call.no_arguments();
  const Value text = soft_str(input);
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.bytes().size();) {
    const char32_t c = text::next_code_point(text.bytes(), at);
    const bool word = c == '_' || is_alnum(c);
    count += word && !inside;
    inside = word;
  }
  return Value::integer(count);
}

Value formatted(const Value& input, Call& call) {
  if (!call.positional.empty() && !call.named.empty())
    fail_type("can't handle positional and keyword arguments at the same time");
  if (call.named.empty()) return format_percent(soft_str(input), Value::tuple(std::move(call.positional)));
  auto dict = std::make_shared<Dict>();
  for (const auto& [name, value] : call.named) dict->set(name, value);
  return format_percent(soft_str(input), Value::dict(std::move(dict)));
}

// As transformers sets it: not escaped for HTML, characters kept.
Value json_text(const Value& input, Call& call) {
  const auto bound = call.bind({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonForm form;
  form.ensure_ascii = truth_or(bound[0], false);
  form.sort_keys = truth_or(bound[3], false);
  if (bound[1] && !bound[1]->is(Kind::none)) {
    form.indent = bound[1]->is(Kind::string) ? bound[1]->bytes() : repeated(" ", int_of(*bound[1], "tojson"));
    form.item_separator = ",";
  }
  if (bound[2] && !bound[2]->is(Kind::none)) {
    const Values separators = to_values(*bound[2]);
    if (separators.size() != 2) fail_type("tojson: separators must be two texts");
    form.item_separator = text_of(separators[0], "tojson");
    form.key_separator = text_of(separators[1], "tojson");
  }
  return Value::string(to_json(input, form));
}

std::string percent_encoded(const std::string& text, bool query) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
                       c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain)
      out += c;
    else if (query && c == ' ')
      out += '+';
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Value url_encoded(const Value& input, Call& call) {
  call.no_arguments();
  if (input.is(Kind::string) || !is_iterable(input)) return Value::string(percent_encoded(to_str(input), false));
  const Value pairs =
      input.is(Kind::dict) ? Value::object(Kind::view, std::make_shared<View>(input, View::What::items)) : input;
  std::string out;
  for (const Value& pair : to_values(pairs)) {
    const Values parts = to_values(pair);
    if (parts.size() != 2) fail_type("urlencode: expected pairs");
    if (!out.empty()) out += '&';
    out += percent_encoded(to_str(parts[0]), true) + "=" + percent_encoded(to_str(parts[1]), true);
  }
  return Value::string(std::move(out));
}

Value xml_attributes(const Value& input, Call& call) {
  const auto bound = call.bind({"autospace"});
  if (!input.is(Kind::dict)) fail_type(fmt::format("xmlattr: expected a mapping, got {}", type_name(input)));
  std::string out;
  for (const auto& [key, value] : input.dict().entries()) {
    if (value.is(Kind::none) || value.is(Kind::undefined)) continue;
    if (text_of(key, "xmlattr").find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
      fail(fmt::format("Invalid character in attribute name: {}", to_repr(key)));
    if (!out.empty()) out += ' ';
    out += fmt::format("{}=\"{}\"", escaped(key).bytes(), escaped(value).bytes());
  }
  return Value::string(truth_or(bound[0], true) && !out.empty() ? " " + out : out);
}

constexpr Named<Filter> kTextFilters[] = {{"capitalize", changed_text<capitalize>},
                                          {"center", centered},
                                          {"e", escape},
                                          {"escape", escape},
                                          {"forceescape", force_escape},
                                          {"format", formatted},
                                          {"indent", indented},
                                          {"lower", changed_text<lower>},
                                          {"replace", replaced_by},
                                          {"safe", safe},
                                          {"string", as_text},
                                          {"title", changed_text<title_words>},
                                          {"tojson", json_text},
                                          {"trim", trimmed},
                                          {"truncate", truncated},
                                          {"upper", changed_text<upper>},
                                          {"urlencode", url_encoded},
                                          {"wordcount", word_count},
                                          {"xmlattr", xml_attributes}};

}  // namespace

std::span<const Named<Filter>> text_filters() { return kTextFilters; }

}  // namespace hone::jinja
