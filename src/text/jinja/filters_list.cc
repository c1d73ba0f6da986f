// Filters over lists, dicts and iterators: order, groups, single elements.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/call.h"
#include "text/jinja/case.h"
#include "text/jinja/compare.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/jinja/run.h"
#include "text/jinja/text_ops.h"

namespace hone::jinja {
namespace {

Value without_case(const Value& value) { return value.is(Kind::string) ? Value::string(lower(value.bytes())) : value; }

Value length(const Value& input, Call& call) {
  call.no_arguments();
  return Value::integer(length_of(input));
}

Value as_list(const Value& input, Call& call) {
  call.no_arguments();
  return Value::list(to_values(input));
}

Value first(const Value& input, Call& call) {
  call.no_arguments();
  Value value;
  return iterate(input)->next(value) ? value : Value::undefined("No first item, sequence was empty.");
}

// What reversed() takes.
void require_reversible(const Value& input) {
  if (input.is(Kind::undefined) || input.is(Kind::iterator) || !is_iterable(input))
    fail_type(fmt::format("'{}' object is not reversible", type_name(input)));
}

Value last(const Value& input, Call& call) {
  call.no_arguments();
  require_reversible(input);
  const Values values = to_values(input);
  return values.empty() ? Value::undefined("No last item, sequence was empty.") : values.back();
}

// A list that is handed out once, element by element.
class Once final : public Iterator {
 public:
  Once(const char* name, Value list) : Iterator(name, list.depth() + 1), list_(std::move(list)) {}
  bool next(Value& to) override {
    if (at_ == list_.items().size()) return false;
    to = list_.items()[at_++];
    return true;
  }

 private:
  Value list_;
  std::size_t at_ = 0;
};
Value once(const char* name, Values values) {
  return Value::object(Kind::iterator, std::make_shared<Once>(name, Value::list(std::move(values))));
}

Value reversed(const Value& input, Call& call) {
  call.no_arguments();
  if (input.is(Kind::string)) return get_slice(input, Value(), Value(), Value::integer(-1));
  Values values = to_values(input);
  std::reverse(values.begin(), values.end());
  // An iterator is no sequence: jinja makes a list of it first, and hands out that.
  if (input.is(Kind::iterator) || input.is(Kind::undefined)) return Value::list(std::move(values));
  return once("list_reverseiterator", std::move(values));
}

// Sorts by keys, stably, as Python's sorted(); the comparisons are counted.
void sort_by(std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  const auto before = [](const auto& a, const auto& b) { return less(a.first, b.first); };
  if (!reverse) return std::stable_sort(keyed.begin(), keyed.end(), before);
  std::reverse(keyed.begin(), keyed.end());
  std::stable_sort(keyed.begin(), keyed.end(), before);
  std::reverse(keyed.begin(), keyed.end());
}

Values values_of(const std::vector<std::pair<Value, Value>>& keyed) {
  Values values;
  for (const auto& [key, value] : keyed) values.push_back(value);
  return values;
}

Value sorted(const Value& input, Call& call) {
  const auto bound = call.bind({"reverse", "case_sensitive", "attribute"});
  const bool case_matters = truth_or(bound[1], false);
  std::vector<AttributePath> paths;
  if (bound[2] && bound[2]->is(Kind::string))
    for (const std::string_view path : split_on(bound[2]->bytes(), ",", -1))
      paths.emplace_back(call.run, Value::string(std::string(path)));
  else
    paths.emplace_back(call.run, bound[2].value_or(Value()));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& value : to_values(input)) {
    Values key;
    for (const AttributePath& path : paths) key.push_back(case_matters ? path.of(value) : without_case(path.of(value)));
    keyed.emplace_back(Value::list(std::move(key)), value);
  }
  sort_by(keyed, truth_or(bound[0], false));
  return Value::list(values_of(keyed));
}

Value dict_sorted(const Value& input, Call& call) {
  const auto bound = call.bind({"case_sensitive", "by", "reverse"});
  const std::string by = bound[1] ? to_str(*bound[1]) : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  require_defined(input);
  if (!input.is(Kind::dict)) fail_type(fmt::format("dictsort: expected a mapping, got {}", type_name(input)));
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : input.dict().entries()) {
    const Value& part = by == "key" ? key : value;
    keyed.emplace_back(truth_or(bound[0], false) ? part : without_case(part), Value::tuple({key, value}));
  }
  sort_by(keyed, truth_or(bound[2], false));
  return Value::list(values_of(keyed));
}

Value grouped(const Value& input, Call& call) {
  const auto bound = call.bind({"attribute", "default", "case_sensitive"}, 1);
  const bool case_matters = truth_or(bound[2], false);
  const AttributePath path(call.run, *bound[0], bound[1]);
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& value : to_values(input))
    keyed.emplace_back(case_matters ? path.of(value) : without_case(path.of(value)), value);
  sort_by(keyed, false);
  Values groups;
  for (std::size_t begin = 0, end = 0; begin < keyed.size(); begin = end) {
    Values members;
    for (; end < keyed.size() && equal(keyed[end].first, keyed[begin].first); ++end)
      members.push_back(keyed[end].second);
    // The name of a group has the case of its first member.
    const Value name = case_matters ? keyed[begin].first : path.of(members[0]);
    auto group = std::make_shared<List>(Values{name, Value::list(std::move(members))});
    group->group = true;
    groups.push_back(Value::object(Kind::tuple, std::move(group)));
  }
  return Value::list(std::move(groups));
}

Value unique(const Value& input, Call& call) {
  const auto bound = call.bind({"case_sensitive", "attribute"});
  const AttributePath path(call.run, bound[1].value_or(Value()));
  Dict seen;
  Values values;
  for (const Value& value : to_values(input)) {
    const Value key = truth_or(bound[0], false) ? path.of(value) : without_case(path.of(value));
    if (seen.find(key)) continue;
    seen.set(key, Value());
    values.push_back(value);
  }
  return once("generator", std::move(values));
}

template <bool kGreatest>
Value extreme(const Value& input, Call& call) {
  const auto bound = call.bind({"case_sensitive", "attribute"});
  const AttributePath path(call.run, bound[1].value_or(Value()));
  std::optional<Value> best, best_key;
  for (const Value& value : to_values(input)) {
    const Value key = truth_or(bound[0], false) ? path.of(value) : without_case(path.of(value));
    if (best && !(kGreatest ? order(key, *best_key, ">") == 1 : order(key, *best_key, "<") == -1)) continue;
    best = value;
    best_key = key;
  }
  return best.value_or(Value::undefined("No aggregated item, sequence was empty."));
}

Value sum(const Value& input, Call& call) {
  const auto bound = call.bind({"attribute", "start"});
  const AttributePath path(call.run, bound[0].value_or(Value()));
  Value total = bound[1].value_or(Value::integer(0));
  if (total.is(Kind::string)) fail_type("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& value : to_values(input)) total = add(total, path.of(value));
  return total;
}

Value join(const Value& input, Call& call) {
  const auto bound = call.bind({"d", "attribute"});
  const Value separator = bound[0] ? soft_str(*bound[0]) : Value::string("");
  const AttributePath path(call.run, bound[1].value_or(Value()));
  Traced out;
  bool any = false;
  for (const Value& value : to_values(input)) {
    if (any) out.add(separator);
    const Value part = path.of(value);
    call.run.require_there(part);
    out.add(soft_str(part));
    Budget::check_text(out.text.size());
    any = true;
  }
  return to_value(std::move(out));
}

Value batched(const Value& input, Call& call) {
  const auto bound = call.bind({"linecount", "fill_with"}, 1);
  const std::int64_t size = int_of(*bound[0], "batch");
  Values rows, row;
  for (const Value& value : to_values(input)) {
    if (static_cast<std::int64_t>(row.size()) == size) rows.push_back(Value::list(std::exchange(row, {})));
    row.push_back(value);
  }
  if (!row.empty()) {
    const bool fills = bound[1] && !bound[1]->is(Kind::none);
    for (; fills && static_cast<std::int64_t>(row.size()) < size; Budget::take_bytes(sizeof(Value)))
      row.push_back(*bound[1]);
    rows.push_back(Value::list(std::move(row)));
  }
  return once("generator", std::move(rows));
}

Value sliced(const Value& input, Call& call) {
  const auto bound = call.bind({"slices", "fill_with"}, 1);
  const Values all = to_values(input);
  const std::int64_t count = int_of(*bound[0], "slice");
  if (count == 0) fail("division by zero");
  const auto size = static_cast<std::int64_t>(all.size());
  const std::int64_t each = count > 0 ? size / count : 0, longer = count > 0 ? size % count : 0;
  Values parts;
  for (std::int64_t i = 0, begin = 0; i < count; ++i) {
    Budget::take_bytes(sizeof(List));
    const std::int64_t end = begin + each + (i < longer);
    Values part(all.begin() + begin, all.begin() + end);
    if (bound[1] && !bound[1]->is(Kind::none) && i >= longer) part.push_back(*bound[1]);
    parts.push_back(Value::list(std::move(part)));
    begin = end;
  }
  return once("generator", std::move(parts));
}

Value items(const Value& input, Call& call) {
  call.no_arguments();
  if (input.is(Kind::undefined)) return once("generator", {});
  if (!input.is(Kind::dict)) fail_type("Can only get item pairs from a mapping.");
  return once("generator", to_values(Value::object(Kind::view, std::make_shared<View>(input, View::What::items))));
}

constexpr Named<Filter> kListFilters[] = {{"batch", batched},    {"count", length},      {"dictsort", dict_sorted},
                                          {"first", first},      {"groupby", grouped},   {"items", items},
                                          {"join", join},        {"last", last},         {"length", length},
                                          {"list", as_list},     {"max", extreme<true>}, {"min", extreme<false>},
                                          {"reverse", reversed}, {"slice", sliced},      {"sort", sorted},
                                          {"sum", sum},          {"unique", unique}};

}  // namespace

std::span<const Named<Filter>> list_filters() { return kListFilters; }

}  // namespace hone::jinja
