// Tests: what stands behind `is`.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/call.h"
#include "text/jinja/case.h"
#include "text/jinja/compare.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"

namespace hone::jinja {
namespace {

template <Kind kKind>
bool is_kind(const Value& value, Call& call) {
  call.no_arguments();
  return value.is(kKind);
}

bool is_defined(const Value& value, Call& call) { return !is_kind<Kind::undefined>(value, call); }

template <bool kWanted>
bool is_bool(const Value& value, Call& call) {
  call.no_arguments();
  return value.is(Kind::boolean) && value.as_bool() == kWanted;
}

bool is_number(const Value& value, Call& call) {
  call.no_arguments();
  return value.is_number();
}

bool is_sequence(const Value& value, Call& call) {
  call.no_arguments();
  return is_iterable(value) && !value.is(Kind::view) && !value.is(Kind::iterator);
}

bool iterable(const Value& value, Call& call) {
  call.no_arguments();
  return is_iterable(value) || value.is(Kind::loop);
}

bool callable(const Value& value, Call& call) {
  call.no_arguments();
  switch (value.kind()) {
    case Kind::undefined:  // has a __call__, which fails
    case Kind::macro:
    case Kind::method:
    case Kind::function:
    case Kind::loop:
    case Kind::joiner:
      return true;
    default:
      return false;
  }
}

template <int kRest>
bool is_rest_of_two(const Value& value, Call& call) {
  call.no_arguments();
  return equal(arithmetic('%', value, Value::integer(2)), Value::integer(kRest));
}

bool divisible(const Value& value, Call& call) {
  const auto bound = call.bind({"num"}, 1);
  return equal(arithmetic('%', value, *bound[0]), Value::integer(0));
}

bool in(const Value& value, Call& call) {
  const auto bound = call.bind({"seq"}, 1);
  return contains(*bound[0], value);
}

bool same_as(const Value& value, Call& call) {
  const auto bound = call.bind({"other"}, 1);
  const Value& other = *bound[0];
  if (value.kind() != other.kind()) return false;
  if (value.same_object(other)) return true;
  return !value.shared() && equal(value, other);
}

bool is_escaped(const Value& value, Call& call) {
  call.no_arguments();
  return value.is(Kind::string) && value.markup();
}

template <bool (*kHolds)(std::string_view)>
bool text_is(const Value& value, Call& call) {
  call.no_arguments();
  return kHolds(to_str(value));
}

Value other_of(Call& call) { return *call.bind({"other"}, 1)[0]; }

bool eq(const Value& a, Call& call) { return equal(a, other_of(call)); }
bool ne(const Value& a, Call& call) { return !equal(a, other_of(call)); }
bool lt(const Value& a, Call& call) { return order(a, other_of(call), "<") == -1; }
bool gt(const Value& a, Call& call) { return order(a, other_of(call), ">") == 1; }
bool le(const Value& a, Call& call) {
  const int o = order(a, other_of(call), "<=");
  return o == -1 || o == 0;
}
bool ge(const Value& a, Call& call) {
  const int o = order(a, other_of(call), ">=");
  return o == 1 || o == 0;
}

bool is_filter(const Value& value, Call& call) {
  call.no_arguments();
  return value.is(Kind::string) && find_filter(value.bytes());
}
bool is_test(const Value& value, Call& call) {
  call.no_arguments();
  return value.is(Kind::string) && find_test(value.bytes());
}

constexpr Named<Test> kTests[] = {{"odd", is_rest_of_two<1>},
                                  {"even", is_rest_of_two<0>},
                                  {"divisibleby", divisible},
                                  {"defined", is_defined},
                                  {"undefined", is_kind<Kind::undefined>},
                                  {"filter", is_filter},
                                  {"test", is_test},
                                  {"none", is_kind<Kind::none>},
                                  {"boolean", is_kind<Kind::boolean>},
                                  {"false", is_bool<false>},
                                  {"true", is_bool<true>},
                                  {"integer", is_kind<Kind::integer>},
                                  {"float", is_kind<Kind::real>},
                                  {"lower", text_is<all_lower>},
                                  {"upper", text_is<all_upper>},
                                  {"string", is_kind<Kind::string>},
                                  {"mapping", is_kind<Kind::dict>},
                                  {"number", is_number},
                                  {"sequence", is_sequence},
                                  {"iterable", iterable},
                                  {"callable", callable},
                                  {"sameas", same_as},
                                  {"escaped", is_escaped},
                                  {"in", in},
                                  {"==", eq},
                                  {"eq", eq},
                                  {"equalto", eq},
                                  {"!=", ne},
                                  {"ne", ne},
                                  {">", gt},
                                  {"gt", gt},
                                  {"greaterthan", gt},
                                  {"ge", ge},
                                  {">=", ge},
                                  {"<", lt},
                                  {"lt", lt},
                                  {"lessthan", lt},
                                  {"<=", le},
                                  {"le", le}};

}  // namespace

Test find_test(std::string_view name) {
  const auto it =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const auto& entry) { return entry.first == name; });
  return it == std::end(kTests) ? nullptr : it->second;
}

}  // namespace hone::jinja
