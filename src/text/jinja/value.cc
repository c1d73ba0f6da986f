// Making values, Python's truth, hashing and lengths.
#include "text/jinja/value.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "text/jinja/budget.h"
#include "text/jinja/fault.h"
#include "text/unicode/unicode.h"

namespace hone::jinja {
namespace {

constexpr std::size_t kSmallDict = 8;

int checked_depth(int depth) {
  if (depth > kMaxDepth) fail(fmt::format("values nested deeper than {}", kMaxDepth));
  return depth;
}

int depth_of(const Values& items) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  return checked_depth(deepest + 1);
}

std::size_t mix(std::size_t seed, std::size_t hash) {
  return seed ^ (hash + 0x9E3779B97F4A7C15 + (seed << 6) + (seed >> 2));
}

}  // namespace

Value Value::undefined(std::string message) {
  return Value(Kind::undefined, std::make_shared<Absent>(std::move(message)));
}
Value Value::boolean(bool value) {
  Value made(Kind::boolean);
  made.bits_.integer = value;
  return made;
}
Value Value::integer(std::int64_t value) {
  Value made(Kind::integer);
  made.bits_.integer = value;
  return made;
}
Value Value::real(double value) {
  Value made(Kind::real);
  made.bits_.real = value;
  return made;
}
Value Value::string(std::string bytes, bool markup, Origins origins) {
  Value made(Kind::string, std::make_shared<Text>(std::move(bytes), std::move(origins)));
  made.markup_ = markup;
  return made;
}
Value Value::list(Values items) { return Value(Kind::list, std::make_shared<List>(std::move(items))); }
Value Value::tuple(Values items) { return Value(Kind::tuple, std::make_shared<List>(std::move(items))); }
Value Value::dict(std::shared_ptr<Dict> dict) { return Value(Kind::dict, std::move(dict)); }

const std::string& Value::bytes() const { return as<Text>().bytes; }
std::size_t Value::length() const { return as<Text>().length; }
const Origins& Value::origins() const { return as<Text>().origins; }
const Values& Value::items() const { return as<List>().items; }
const Dict& Value::dict() const { return as<Dict>(); }
const std::string& Value::message() const { return as<Absent>().message; }

Text::Text(std::string text, Origins where) : bytes(std::move(text)), origins(std::move(where)), length(0) {
  Budget::check_text(bytes.size());
  Budget::take_bytes(bytes.size() + sizeof(Text) + origins.size() * sizeof(Stretch));
  for (const char byte : bytes) length += !text::is_continuation(byte);
}

List::List(Values values) : Object(depth_of(values)), items(std::move(values)) {
  Budget::take_bytes(items.size() * sizeof(Value) + sizeof(List));
}

std::int64_t Range::size() const {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const auto span =
      static_cast<std::uint64_t>(step > 0 ? stop : start) - static_cast<std::uint64_t>(step > 0 ? start : stop);
  const auto stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  return static_cast<std::int64_t>(std::min<std::uint64_t>((span - 1) / stride + 1, INT64_MAX));
}

Iterator::Iterator(const char* name, int depth) : Object(checked_depth(depth)), name(name) {}

std::ptrdiff_t Dict::place_of(const Value& key, std::size_t hash) const {
  if (index_.empty()) {
    for (std::size_t i = 0; i < entries_.size(); ++i)
      if (equal(entries_[i].first, key)) return static_cast<std::ptrdiff_t>(i);
    return -1;
  }
  const auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (equal(entries_[it->second].first, key)) return it->second;
  return -1;
}

const Value* Dict::find(const Value& key) const {
  const std::ptrdiff_t place = place_of(key, hash_of(key));
  return place < 0 ? nullptr : &entries_[static_cast<std::size_t>(place)].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto is_it = [&](const Entry& entry) { return entry.first.is(Kind::string) && entry.first.bytes() == key; };
  if (index_.empty()) {
    for (const Entry& entry : entries_)
      if (is_it(entry)) return &entry.second;
    return nullptr;
  }
  const auto [begin, end] = index_.equal_range(std::hash<std::string_view>{}(key));
  for (auto it = begin; it != end; ++it)
    if (is_it(entries_[it->second])) return &entries_[it->second].second;
  return nullptr;
}

void Dict::set(Value key, Value value) {
  depth = std::max(depth, checked_depth(1 + std::max(key.depth(), value.depth())));
  const std::size_t hash = hash_of(key);
  if (const std::ptrdiff_t place = place_of(key, hash); place >= 0) {
    entries_[static_cast<std::size_t>(place)].second = std::move(value);
    return;
  }
  Budget::take_bytes(sizeof(Entry) + 32);
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= kSmallDict) return;
  if (index_.empty())
    for (std::uint32_t i = 0; i + 1 < entries_.size(); ++i) index_.emplace(hash_of(entries_[i].first), i);
  index_.emplace(hash, static_cast<std::uint32_t>(entries_.size() - 1));
}

void Dict::clear() {
  entries_.clear();
  index_.clear();
}

std::size_t hash_of(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
    case Kind::undefined:
    case Kind::missing:
      return static_cast<std::size_t>(value.kind());
    case Kind::boolean:
    case Kind::integer:
      return std::hash<std::int64_t>{}(value.as_int());
    case Kind::real: {  // 1.0 and 1 are the same key
      const double real = value.as_real();
      if (std::trunc(real) == real && std::abs(real) < 9e18)
        return std::hash<std::int64_t>{}(static_cast<std::int64_t>(real));
      return std::hash<double>{}(real);
    }
    case Kind::string:
      return std::hash<std::string_view>{}(value.bytes());
    case Kind::tuple: {
      std::size_t hash = value.items().size();
      for (const Value& item : value.items()) hash = mix(hash, hash_of(item));
      Budget::take_steps(static_cast<std::int64_t>(value.items().size()));
      return hash;
    }
    case Kind::list:
    case Kind::dict:
      fail_type(fmt::format("unhashable type: '{}'", type_name(value)));
    case Kind::range: {
      const Range& range = value.as<Range>();
      return mix(static_cast<std::size_t>(range.size()), static_cast<std::size_t>(range.start));
    }
    default:
      return std::hash<const void*>{}(value.shared().get());
  }
}

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return value.markup() ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::view: {
      const View::What what = value.as<View>().what;
      return what == View::What::keys ? "dict_keys" : what == View::What::values ? "dict_values" : "dict_items";
    }
    case Kind::iterator:
      return value.as<Iterator>().name;
    case Kind::space:
      return "Namespace";
    case Kind::loop:
      return "LoopContext";
    case Kind::macro:
      return "Macro";
    case Kind::method:
      return "builtin_function_or_method";
    case Kind::function:
      return "function";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
  }
  return "object";
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_int() != 0;
    case Kind::real:
      return value.as_real() != 0;
    case Kind::string:
      return !value.bytes().empty();
    case Kind::list:
    case Kind::tuple:
      return !value.items().empty();
    case Kind::dict:
      return value.dict().size() != 0;
    case Kind::range:
      return value.as<Range>().size() != 0;
    case Kind::view:
      return value.as<View>().dict.dict().size() != 0;
    case Kind::loop:
      return length_of(value) != 0;
    default:
      return true;
  }
}

void require_defined(const Value& value) {
  if (value.is(Kind::undefined)) fail(value.message());
}

}  // namespace hone::jinja
