// Python's equality, by kind. Values are nested at most kMaxDepth deep, so recursion is bounded; elements are counted
// as steps.
#include <algorithm>

#include "text/jinja/budget.h"
#include "text/jinja/value.h"

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

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return a.as_int() == b.as_int();
  return a.as_real() == b.as_real();
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

}  // namespace hone::jinja
