// Binding arguments, and the tables of filters and tests.
#include "text/jinja/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "text/jinja/fault.h"
#include "text/jinja/traced.h"

namespace hone::jinja {

std::vector<std::optional<Value>> Call::bind(std::initializer_list<std::string_view> parameters, std::size_t needed) {
  std::vector<std::optional<Value>> bound(parameters.size());
  if (positional.size() > parameters.size())
    fail_type(fmt::format("{} takes at most {} arguments; got {}", what, parameters.size(), positional.size()));
  for (std::size_t i = 0; i < positional.size(); ++i) bound[i] = std::move(positional[i]);
  for (auto& [name, value] : named) {
    const auto it = std::find(parameters.begin(), parameters.end(), name);
    if (it == parameters.end()) fail_type(fmt::format("{} got an unexpected keyword argument '{}'", what, name));
    auto& place = bound[static_cast<std::size_t>(it - parameters.begin())];
    if (place) fail_type(fmt::format("{} got multiple values for argument '{}'", what, name));
    place = std::move(value);
  }
  for (std::size_t i = 0; i < needed; ++i)
    if (!bound[i]) fail_type(fmt::format("{} missing required argument '{}'", what, parameters.begin()[i]));
  return bound;
}

std::int64_t int_of(const Value& value, std::string_view name) {
  if (value.is_whole()) return value.as_int();
  require_defined(value);
  fail_type(fmt::format("{}: '{}' object cannot be interpreted as an integer", name, type_name(value)));
}

double real_of(const Value& value, std::string_view name) {
  if (value.is_number()) return value.as_real();
  require_defined(value);
  fail_type(fmt::format("{}: must be a number, not {}", name, type_name(value)));
}

const std::string& text_of(const Value& value, std::string_view name) {
  if (value.is(Kind::string)) return value.bytes();
  fail_type(fmt::format("{}: must be str, not {}", name, type_name(value)));
}

std::int64_t int_or(const std::optional<Value>& value, std::string_view name, std::int64_t otherwise) {
  return value ? int_of(*value, name) : otherwise;
}
bool truth_or(const std::optional<Value>& value, bool otherwise) { return value ? truth(*value) : otherwise; }

Filter find_filter(std::string_view name) {
  for (const auto table : {text_filters(), number_filters(), list_filters(), choice_filters()})
    for (const auto& [known, filter] : table)
      if (known == name) return filter;
  return nullptr;
}

std::string unknown_filter(std::string_view name) {
  constexpr std::array<std::string_view, 5> kJinjas = {"pprint", "random", "striptags", "urlize", "wordwrap"};
  const bool known = std::find(kJinjas.begin(), kJinjas.end(), name) != kJinjas.end();
  return known ? fmt::format("the filter '{}' is not supported", name)
               : fmt::format("No filter named '{}'.", escape_for_terminal(name, 60));
}
std::string unknown_test(std::string_view name) {
  return fmt::format("No test named '{}'.", escape_for_terminal(name, 60));
}

namespace {

bool makes_text(Filter filter) {
  const auto table = text_filters();
  return std::any_of(table.begin(), table.end(), [&](const auto& entry) { return entry.second == filter; });
}

}  // namespace

Value call_filter(Run& run, std::string_view name, const Value& input, Values positional,
                  std::vector<std::pair<std::string, Value>> named) {
  const Filter filter = find_filter(name);
  if (!filter) fail(unknown_filter(name));
  Call call{run, name, std::move(positional), std::move(named)};
  if (!makes_text(filter)) return filter(input, call);
  Source source = source_of(input);
  for (const Value& value : call.positional) source = mixed(source, source_of(value));
  for (const auto& [key, value] : call.named) source = mixed(source, source_of(value));
  return traced_to(source, filter(input, call));
}

bool call_test(Run& run, std::string_view name, const Value& input, Values positional,
               std::vector<std::pair<std::string, Value>> named) {
  const Test test = find_test(name);
  if (!test) fail(unknown_test(name));
  Call call{run, name, std::move(positional), std::move(named)};
  return test(input, call);
}

AttributePath::AttributePath(Run& run, const Value& path, std::optional<Value> otherwise)
    : run_(run), otherwise_(std::move(otherwise)) {
  if (path.is(Kind::none)) return;
  if (!path.is(Kind::string)) {
    parts_.push_back(path);
    return;
  }
  for (const std::string& part : split(path.bytes(), '.')) {
    const bool digits =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto number = digits ? parse_int(part) : std::nullopt;
    parts_.push_back(number ? Value::integer(*number) : Value::string(part));
  }
}

Value AttributePath::of(Value item) const {
  for (const Value& part : parts_) {
    item = get_item(run_, item, part);
    if (otherwise_ && !otherwise_->is(Kind::none) && item.is(Kind::undefined)) item = *otherwise_;
  }
  return item;
}

}  // namespace hone::jinja
