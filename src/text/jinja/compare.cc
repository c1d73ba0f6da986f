// Comparisons by kind. Values are nested at most kMaxDepth deep, so recursion is bounded; elements are counted as
// steps.
#include "text/jinja/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/budget.h"
#include "text/jinja/fault.h"
#include "text/jinja/text_ops.h"

namespace hone::jinja {
namespace {

bool equal_items(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!a[i].same_object(b[i]) && !equal(a[i], b[i])) return false;
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.find(key);
    if (!other || !(value.same_object(*other) || equal(value, *other))) return false;
  }
  return true;
}

bool equal_ranges(const Range& a, const Range& b) {
  const std::int64_t size = a.size();
  return size == b.size() && (size == 0 || (a.start == b.start && (size == 1 || a.step == b.step)));
}

bool equal_views(const View& a, const View& b) {
  if (a.what != b.what || a.what == View::What::values) return &a == &b;
  const Dict &left = a.dict.dict(), &right = b.dict.dict();
  if (a.what == View::What::items) return equal_dicts(left, right);
  if (left.size() != right.size()) return false;
  return std::all_of(left.entries().begin(), left.entries().end(),
                     [&](const Dict::Entry& entry) { return right.find(entry.first) != nullptr; });
}

template <class T>
int sign_of(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : a == b ? 0 : 2;
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return a.as_int() == b.as_int();
  return a.as_real() == b.as_real();
}

int order_items(const Values& a, const Values& b, const char* sign) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (!a[i].same_object(b[i]) && !equal(a[i], b[i])) return order(a[i], b[i], sign);
  return sign_of(a.size(), b.size());
}

}  // namespace

bool equal(const Value& a, const Value& b) {
  Budget::take_steps(1);
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::none:
    case Kind::undefined:
    case Kind::missing:
      return true;
    case Kind::string:
      return a.bytes() == b.bytes();
    case Kind::list:
    case Kind::tuple:
      return a.same_object(b) || equal_items(a.items(), b.items());
    case Kind::dict:
      return a.same_object(b) || equal_dicts(a.dict(), b.dict());
    case Kind::range:
      return equal_ranges(a.as<Range>(), b.as<Range>());
    case Kind::view:
      return equal_views(a.as<View>(), b.as<View>());
    default:
      return a.same_object(b);
  }
}

int order(const Value& a, const Value& b, const char* sign) {
  Budget::take_steps(1);
  require_defined(a);
  require_defined(b);
  if (a.is_whole() && b.is_whole()) return sign_of(a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return sign_of(a.as_real(), b.as_real());
  if (a.is(Kind::string) && b.is(Kind::string)) return sign_of(a.bytes().compare(b.bytes()), 0);
  if (a.kind() == b.kind() && a.is_sequence()) return order_items(a.items(), b.items(), sign);
  fail_type(fmt::format("'{}' not supported between instances of '{}' and '{}'", sign, type_name(a), type_name(b)));
}

bool less(const Value& a, const Value& b) { return order(a, b) == -1; }

bool contains(const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::string:
      if (!item.is(Kind::string))
        fail_type(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
      return find_bytes(container.bytes(), item.bytes()) != std::string::npos;
    case Kind::dict:
      return container.dict().find(item) != nullptr;
    case Kind::view:
      if (container.as<View>().what == View::What::keys) return container.as<View>().dict.dict().find(item) != nullptr;
      break;
    case Kind::list:
    case Kind::tuple:
      return std::any_of(container.items().begin(), container.items().end(),
                         [&](const Value& one) { return one.same_object(item) || equal(one, item); });
    default:
      if (!is_iterable(container))
        fail_type(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  }
  const auto rest = iterate(container);
  for (Value one; rest->next(one);)
    if (equal(one, item)) return true;
  return false;
}

}  // namespace hone::jinja
