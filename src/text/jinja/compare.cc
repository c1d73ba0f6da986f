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

template <class T>
int sign_of(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : a == b ? 0 : 2;
}

int order_items(const Values& a, const Values& b, const char* sign) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (!a[i].same_object(b[i]) && !equal(a[i], b[i])) return order(a[i], b[i], sign);
  return sign_of(a.size(), b.size());
}

}  // namespace

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
