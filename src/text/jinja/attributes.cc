// Attributes, items and slices as jinja's sandbox gives them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/jinja/call.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/jinja/run.h"
#include "text/jinja/text_ops.h"
#include "text/unicode/unicode.h"

namespace hone::jinja {
namespace {

template <std::size_t kSize>
bool in(const std::array<std::string_view, kSize>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 3> kListMethods = {"copy", "count", "index"};
constexpr std::array<std::string_view, 2> kTupleMethods = {"count", "index"};
constexpr std::array<std::string_view, 6> kDictMethods = {"copy", "fromkeys", "get", "items", "keys", "values"};
// What changes a list or a dict: the sandbox hands out something that fails when it is used.
constexpr std::array<std::string_view, 8> kListChanges = {"append", "clear",  "extend",  "insert",
                                                          "pop",    "remove", "reverse", "sort"};
constexpr std::array<std::string_view, 5> kDictChanges = {"clear", "pop", "popitem", "setdefault", "update"};
// Attributes of every Python object; the sandbox forbids all that begin with an underscore.
constexpr std::array<std::string_view, 22> kPrivate = {
    "__class__",  "__delattr__",      "__dir__",          "__doc__",          "__eq__",   "__format__",
    "__ge__",     "__getattribute__", "__gt__",           "__hash__",         "__init__", "__le__",
    "__lt__",     "__ne__",           "__new__",          "__reduce__",       "__repr__", "__setattr__",
    "__sizeof__", "__str__",          "__subclasshook__", "__init_subclass__"};

Value method(const Value& self, std::string_view name) {
  return Value::object(Kind::method, std::make_shared<Method>(self, std::string(name)));
}
Value forbidden(const Value& self, std::string_view name) {
  return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(self)));
}
[[noreturn]] void fail_unsupported(const Value& self, std::string_view name) {
  fail(fmt::format("the attribute '{}' of '{}' is not supported", name, type_name(self)));
}

std::optional<Value> number_attribute(const Value& self, std::string_view name) {
  const bool whole = self.is_whole();
  const Value plain = self.is(Kind::boolean) ? Value::integer(self.as_int()) : self;
  if (name == "real" || (whole && name == "numerator")) return plain;
  if (whole && name == "denominator") return Value::integer(1);
  if (name == "imag") return whole ? Value::integer(0) : Value::real(0);
  constexpr std::array<std::string_view, 7> kWhole = {"as_integer_ratio", "bit_count", "bit_length", "conjugate",
                                                      "from_bytes",       "to_bytes",  "denominator"};
  constexpr std::array<std::string_view, 5> kReal = {"as_integer_ratio", "conjugate", "fromhex", "hex", "is_integer"};
  if (whole ? in(kWhole, name) : in(kReal, name)) fail_unsupported(self, name);
  return std::nullopt;
}

std::optional<Value> loop_attribute(const Value& self, std::string_view name) {
  Loop& loop = self.as<Loop>();
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(loop.peek().is(Kind::missing));
  if (name == "length") return Value::integer(loop.length());
  if (name == "revindex") return Value::integer(loop.length() - loop.index0);
  if (name == "revindex0") return Value::integer(loop.length() - loop.index0 - 1);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem") return loop.index0 == 0 ? Value::undefined("there is no previous item") : loop.before;
  if (name == "nextitem") return loop.peek().is(Kind::missing) ? Value::undefined("there is no next item") : loop.after;
  if (name == "cycle" || name == "changed") return method(self, name);
  return std::nullopt;
}

std::optional<Value> macro_attribute(const Macro& macro, std::string_view name) {
  const Function& function = *macro.stmt.function;
  if (name == "name") return macro.name.empty() ? Value() : Value::string(macro.name);
  if (name == "catch_kwargs") return Value::boolean(function.kwargs >= 0);
  if (name == "catch_varargs") return Value::boolean(function.varargs >= 0);
  const auto& parameters = function.parameters;
  const bool own = std::find(parameters.begin(), parameters.end(), "caller") != parameters.end();
  if (name == "explicit_caller") return Value::boolean(own);
  if (name == "caller") return Value::boolean(own || function.caller >= 0);
  if (name != "arguments") return std::nullopt;
  Values names;
  for (const std::string& parameter : parameters) names.push_back(Value::string(parameter));
  return Value::tuple(std::move(names));
}

std::optional<Value> list_attribute(const Value& self, std::string_view name) {
  const bool list = self.is(Kind::list);
  if (list ? in(kListMethods, name) : in(kTupleMethods, name)) return method(self, name);
  if (list && in(kListChanges, name)) return forbidden(self, name);
  if (self.as<List>().group && (name == "grouper" || name == "list")) return self.items()[name == "list"];
  return std::nullopt;
}

std::int64_t place_in(std::int64_t index, std::int64_t size) { return index < 0 ? index + size : index; }

// object[key] of Python; nothing: a TypeError, IndexError or KeyError, which jinja answers with `undefined`.
std::optional<Value> item_of(const Value& object, const Value& key) {
  if (object.is(Kind::dict)) {
    if (key.is(Kind::list) || key.is(Kind::dict)) return std::nullopt;
    const Value* value = object.dict().find(key);
    return value ? std::optional<Value>(*value) : std::nullopt;
  }
  if (!key.is_whole()) return std::nullopt;
  const std::int64_t size = size_of(object), at = place_in(key.as_int(), size);
  if (at < 0 || at >= size) return std::nullopt;
  const auto place = static_cast<std::size_t>(at);
  if (object.is_sequence()) return object.items()[place];
  if (object.is(Kind::range)) return Value::integer(object.as<Range>().at(at));
  if (!object.is(Kind::string)) return std::nullopt;
  const std::string& text = object.bytes();
  const std::size_t byte = object.as<Text>().ascii() ? place : byte_of_character(text, place);
  Budget::take_steps(static_cast<std::int64_t>(byte / 64));
  return part_of(object, std::string_view(text).substr(byte, text::utf8_length(text[byte])));
}

}  // namespace

std::optional<Value> find_attribute(Run&, const Value& self, std::string_view name) {
  if (self.is(Kind::space)) {
    const Value* value = self.as<Space>().attributes.find(name);
    return value ? std::optional<Value>(*value) : std::nullopt;
  }
  if (name.starts_with("__") && in(kPrivate, name)) return forbidden(self, name);
  switch (self.kind()) {
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      return number_attribute(self, name);
    case Kind::string:
      return has_text_method(name) ? std::optional(method(self, name)) : std::nullopt;
    case Kind::list:
    case Kind::tuple:
      return list_attribute(self, name);
    case Kind::dict:
      if (in(kDictMethods, name)) return method(self, name);
      return in(kDictChanges, name) ? std::optional(forbidden(self, name)) : std::nullopt;
    case Kind::range: {
      const Range& range = self.as<Range>();
      if (name == "start") return Value::integer(range.start);
      if (name == "stop") return Value::integer(range.stop);
      if (name == "step") return Value::integer(range.step);
      return in(kTupleMethods, name) ? std::optional(method(self, name)) : std::nullopt;
    }
    case Kind::view:
      if (name == "isdisjoint" || name == "mapping") fail_unsupported(self, name);
      return std::nullopt;
    case Kind::loop:
      return loop_attribute(self, name);
    case Kind::macro:
      return macro_attribute(self.as<Macro>(), name);
    case Kind::cycler:
      if (name == "current") return self.as<Cycler>().values[self.as<Cycler>().at];
      return name == "next" || name == "reset" ? std::optional(method(self, name)) : std::nullopt;
    case Kind::function:
      return self.as<GlobalFunction>().name == "dict" && name == "fromkeys" ? std::optional(method(self, name))
                                                                            : std::nullopt;
    default:
      return std::nullopt;
  }
}

namespace {

std::string object_name(const Value& object) {
  return object.is(Kind::none) ? "None" : fmt::format("{} object", type_name(object));
}

}  // namespace

Value get_attribute(Run& run, const Value& object, const std::string& name) {
  require_defined(object);
  if (auto found = find_attribute(run, object, name)) return *found;
  if (object.is(Kind::dict))
    if (const Value* value = object.dict().find(std::string_view(name))) return *value;
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", object_name(object), name));
}

Value get_item(Run& run, const Value& object, const Value& key) {
  require_defined(object);
  if (auto found = item_of(object, key)) return *found;
  if (key.is(Kind::string)) {
    if (auto found = find_attribute(run, object, key.bytes())) return *found;
    return Value::undefined(fmt::format("'{}' has no attribute {}", object_name(object), to_repr(key)));
  }
  return Value::undefined(fmt::format("{} has no element {}", object_name(object), to_repr(key)));
}

Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  require_defined(object);
  const auto bound = [](const Value& value) -> std::optional<std::int64_t> {
    if (value.is(Kind::none)) return std::nullopt;
    if (!value.is_whole()) fail_type("slice indices must be integers or None or have an __index__ method");
    return value.as_int();
  };
  if (!object.is(Kind::string) && !object.is_sequence() && !object.is(Kind::range)) {
    if (object.is(Kind::dict)) fail_type("unhashable type: 'slice'");
    fail_type(fmt::format("'{}' object is not subscriptable", type_name(object)));
  }
  const std::int64_t stride = bound(step).value_or(1), size = size_of(object);
  if (stride == 0) fail_type("slice step cannot be zero");
  const std::int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  const auto clipped = [&](const std::optional<std::int64_t>& at, std::int64_t otherwise) {
    return at ? std::clamp(*at < 0 ? *at + size : *at, low, high) : otherwise;
  };
  const Range range(clipped(bound(start), stride > 0 ? low : high), clipped(bound(stop), stride > 0 ? high : low),
                    stride);
  const std::int64_t count = range.size();
  if (object.is(Kind::range)) {
    const Range& from = object.as<Range>();
    const std::int64_t step = from.step * std::clamp(stride, -size - 1, size + 1);
    return Value::object(Kind::range, std::make_shared<Range>(from.at(range.start), from.at(range.stop), step));
  }
  if (object.is_sequence()) {
    Values items;
    for (std::int64_t i = 0; i < count; ++i) items.push_back(object.items()[static_cast<std::size_t>(range.at(i))]);
    return object.is(Kind::list) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  const std::string& text = object.bytes();
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  if (stride == 1 && count > 0) {
    const bool ascii = object.as<Text>().ascii();
    const std::size_t begin = ascii ? at(range.start) : byte_of_character(text, at(range.start));
    const std::size_t length = ascii ? at(count) : byte_of_character(std::string_view(text).substr(begin), at(count));
    Budget::take_steps(static_cast<std::int64_t>((begin + length) / 64));
    return part_of(object, std::string_view(text).substr(begin, length));
  }
  std::vector<std::size_t> places;  // of every character
  for (std::size_t byte = 0; byte < text.size(); byte += text::utf8_length(text[byte])) places.push_back(byte);
  std::string out;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t byte = places[at(range.at(i))];
    out.append(text, byte, text::utf8_length(text[byte]));
  }
  return traced_to(source_of(object), Value::string(std::move(out), object.markup()));
}

}  // namespace hone::jinja
