// A call of a filter, test, method or function: its arguments, bound to parameters as Python binds them.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace hone::jinja {

class Run;

struct Call {
  Run& run;
  std::string_view what;  // for messages: "filter 'join'", "str.split"
  Values positional = {};
  std::vector<std::pair<std::string, Value>> named = {};

  // Moves the arguments to the places of these parameters; throws for too many, unknown or repeated ones. The first
  // `needed` must be there.
  std::vector<std::optional<Value>> bind(std::initializer_list<std::string_view> parameters, std::size_t needed = 0);
  void no_arguments() { bind({}); }
};

// Arguments of the types that Python would take; name is for the message.
std::int64_t int_of(const Value& value, std::string_view name);  // int or bool
double real_of(const Value& value, std::string_view name);
const std::string& text_of(const Value& value, std::string_view name);  // str
std::int64_t int_or(const std::optional<Value>& value, std::string_view name, std::int64_t otherwise);
bool truth_or(const std::optional<Value>& value, bool otherwise);

using Filter = Value (*)(const Value& input, Call& call);
using Test = bool (*)(const Value& input, Call& call);
template <class Function>
using Named = std::pair<std::string_view, Function>;

Filter find_filter(std::string_view name);  // null: there is none
Test find_test(std::string_view name);
std::string unknown_filter(std::string_view name);
std::string unknown_test(std::string_view name);

// The parts of the filter table, one per file.
std::span<const Named<Filter>> text_filters();
std::span<const Named<Filter>> number_filters();
std::span<const Named<Filter>> list_filters();
std::span<const Named<Filter>> choice_filters();

Value call_filter(Run& run, std::string_view name, const Value& input, Values positional,
                  std::vector<std::pair<std::string, Value>> named);
bool call_test(Run& run, std::string_view name, const Value& input, Values positional,
               std::vector<std::pair<std::string, Value>> named);

// Methods: nothing when a value of this kind has no such attribute. A found one may be an undefined value that fails
// when it is used, for what the sandbox forbids.
std::optional<Value> find_attribute(Run& run, const Value& object, std::string_view name);
Value call_method(const Value& self, std::string_view name, Call& call);
Value call_text_method(const Value& self, std::string_view name, Call& call);
bool has_text_method(std::string_view name);

// a.name and a[key] as jinja's sandbox looks them up.
Value get_attribute(Run& run, const Value& object, const std::string& name);
Value get_item(Run& run, const Value& object, const Value& key);
Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step);

// "a.b.0" as filters take it in `attribute`.
class AttributePath {
 public:
  AttributePath(Run& run, const Value& path, std::optional<Value> otherwise = {});
  Value of(Value item) const;

 private:
  Run& run_;
  Values parts_;
  std::optional<Value> otherwise_;
};

// Functions: range, dict, namespace, ...; nothing: no such name.
std::optional<Value> find_global(std::string_view name);
Value call_global(std::string_view name, Call& call);

// "%s" % values, and "{}".format(...).
Value format_percent(const Value& text, const Value& values);
Value format_braces(const Value& text, Call& call);
// format(value, specification), as after the colon in "{:>8}".
std::string format_one(const Value& value, const std::string& specification);

Value add(const Value& a, const Value& b);
Value arithmetic(char sign, const Value& a, const Value& b);  // - * / f (floor) % p (power)
Value negated(const Value& value);

std::string strftime_of(std::string_view form, std::int64_t seconds);  // since 1970, local time of the given moment

}  // namespace hone::jinja
