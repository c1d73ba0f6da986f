// A value of a template, as Python has it: scalars, texts, lists, dicts in their order, iterators, and what is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/origins.h"

namespace hone::jinja {

enum class Kind : std::uint8_t {
  missing,    // a variable that was never set; reading it gives `undefined`
  undefined,  // jinja's Undefined: prints as nothing, most other uses fail with its message
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  dict,
  range,
  view,      // dict.keys(), .values(), .items()
  iterator,  // one pass, always true
  space,     // namespace(): the only thing a template can change
  loop,
  macro,
  method,    // of a value: "x".upper
  function,  // range, dict, raise_exception, ...
  cycler,
  joiner
};

// What happens where a template writes an undefined value (or, where that fails, a null), makes a text of it, or goes
// through it; it may always ask whether it is there.
enum class Undefined { prints_nothing, fails };

// Shared, unchanging after it is made (but for spaces, loops and iterators). `depth` counts values inside values, so
// that no chain grows longer than the stack is deep.
struct Object {
  explicit Object(int depth = 1) : depth(depth) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  int depth;
};

class Value;
using Values = std::vector<Value>;
struct Dict;

class Value {
 public:
  Value() = default;  // None
  static Value missing() { return Value(Kind::missing); }
  static Value undefined(std::string message);  // the message of the error that its use gives
  static Value boolean(bool value);
  static Value integer(std::int64_t value);
  static Value real(double value);
  static Value string(std::string bytes, bool markup = false, Origins origins = {});  // REQUIRES: UTF-8
  static Value list(Values items);
  static Value tuple(Values items);
  static Value dict(std::shared_ptr<Dict> dict);
  static Value object(Kind kind, std::shared_ptr<Object> object) { return Value(kind, std::move(object)); }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const { return kind_ == Kind::boolean || kind_ == Kind::integer || kind_ == Kind::real; }
  bool is_whole() const { return kind_ == Kind::boolean || kind_ == Kind::integer; }
  bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }

  bool as_bool() const { return bits_.integer != 0; }    // boolean only
  std::int64_t as_int() const { return bits_.integer; }  // boolean and integer
  double as_real() const { return is(Kind::real) ? bits_.real : static_cast<double>(bits_.integer); }
  const std::string& bytes() const;  // string only
  std::size_t length() const;        // string only: characters
  const Origins& origins() const;    // string only
  bool markup() const { return markup_; }
  const Values& items() const;         // list and tuple
  const Dict& dict() const;            // dict only
  const std::string& message() const;  // undefined only
  template <class T>
  T& as() const {
    return static_cast<T&>(*object_);
  }
  const std::shared_ptr<Object>& shared() const { return object_; }
  bool same_object(const Value& other) const { return object_ && object_ == other.object_; }
  int depth() const { return object_ ? object_->depth : 0; }

 private:
  explicit Value(Kind kind, std::shared_ptr<Object> object = nullptr) : kind_(kind), object_(std::move(object)) {}
  Kind kind_ = Kind::none;
  bool markup_ = false;
  union {
    std::int64_t integer = 0;
    double real;
  } bits_;
  std::shared_ptr<Object> object_;
};

struct Text final : Object {
  explicit Text(std::string text, Origins origins = {});
  std::string bytes;
  Origins origins;
  std::size_t length;  // in characters
  bool ascii() const { return length == bytes.size(); }
};
struct Absent final : Object {
  explicit Absent(std::string text) : message(std::move(text)) {}
  std::string message;
};
struct List final : Object {
  explicit List(Values values);
  Values items;
  bool group = false;  // of groupby: its two items are also .grouper and .list
};
struct Range final : Object {
  Range(std::int64_t start, std::int64_t stop, std::int64_t step) : start(start), stop(stop), step(step) {}
  std::int64_t start, stop, step;
  std::int64_t size() const;
  std::int64_t at(std::int64_t i) const { return start + i * step; }
};

// Entries in the order of insertion; a key that is set again keeps its place, as in Python.
struct Dict final : Object {
  using Entry = std::pair<Value, Value>;
  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  const Value* find(const Value& key) const;  // throws a Fault for a key that cannot be hashed
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
  void set(std::string_view key, Value value) { set(Value::string(std::string(key)), std::move(value)); }
  void clear();

 private:
  std::ptrdiff_t place_of(const Value& key, std::size_t hash) const;
  std::vector<Entry> entries_;
  std::unordered_multimap<std::size_t, std::uint32_t> index_;  // once there are more than a few
};

struct View final : Object {
  enum class What { keys, values, items };
  View(Value dict, What what) : Object(dict.depth() + 1), dict(std::move(dict)), what(what) {}
  Value dict;
  What what;
};

// One pass over elements. `name` is how Python prints it.
struct Iterator : Object {
  Iterator(const char* name, int depth);
  virtual bool next(Value& to) = 0;  // false: no more
  const char* name;
};

bool equal(const Value& a, const Value& b);  // over all types, as Python's ==
std::size_t hash_of(const Value& value);     // throws a Fault: "unhashable type: 'list'"
const char* type_name(const Value& value);   // Python's: "str", "dict", ...
bool truth(const Value& value);

// Throws the Fault of an undefined value when it is one.
void require_defined(const Value& value);

// Over a list, a text's characters, a dict's keys, ...; throws "'int' object is not iterable".
std::shared_ptr<Iterator> iterate(const Value& value);
bool is_iterable(const Value& value);
Values to_values(const Value& value);  // all elements
// Python's len(), or -1 for what has none.
std::int64_t size_of(const Value& value);
std::int64_t length_of(const Value& value);  // throws "object of type 'int' has no len()"

}  // namespace hone::jinja
