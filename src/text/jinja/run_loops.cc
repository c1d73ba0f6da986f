// for loops, the variable `loop`, and iteration over values.
#include <fmt/format.h>

#include "text/jinja/call.h"
#include "text/jinja/fault.h"
#include "text/jinja/run.h"
#include "text/jinja/run_deeper.h"
#include "text/unicode/unicode.h"

namespace hone::jinja {
namespace {

// Over the elements that a value has by number.
class Elements final : public Iterator {
 public:
  explicit Elements(Value value) : Iterator("iterator", value.depth() + 1), value_(std::move(value)) {}

  bool next(Value& to) override {
    switch (value_.kind()) {
      case Kind::string:
        return next_character(to);
      case Kind::range:
        return next_of_range(to);
      case Kind::dict:
        return next_entry(value_.dict(), View::What::keys, to);
      case Kind::view:
        return next_entry(value_.as<View>().dict.dict(), value_.as<View>().what, to);
      case Kind::undefined:
        return false;
      default:
        if (at_ == value_.items().size()) return false;
        to = value_.items()[at_++];
        return true;
    }
  }

 private:
  bool next_character(Value& to) {
    const std::string& text = value_.bytes();
    if (at_ == text.size()) return false;
    const std::size_t size = text::utf8_length(text[at_]);
    to = part_of(value_, std::string_view(text).substr(at_, size));
    at_ += size;
    return true;
  }
  bool next_of_range(Value& to) {
    const Range& range = value_.as<Range>();
    if (static_cast<std::int64_t>(at_) >= range.size()) return false;
    to = Value::integer(range.at(static_cast<std::int64_t>(at_++)));
    return true;
  }
  bool next_entry(const Dict& dict, View::What what, Value& to) {
    if (at_ == dict.size()) return false;
    const Dict::Entry& entry = dict.entries()[at_++];
    to = what == View::What::keys     ? entry.first
         : what == View::What::values ? entry.second
                                      : Value::tuple({entry.first, entry.second});
    return true;
  }

  Value value_;
  std::size_t at_ = 0;
};

}  // namespace

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::view:
    case Kind::iterator:
      return true;
    default:
      return false;
  }
}

std::shared_ptr<Iterator> iterate(const Value& value) {
  if (value.is(Kind::iterator)) return std::static_pointer_cast<Iterator>(value.shared());
  if (!is_iterable(value)) fail_type(fmt::format("'{}' object is not iterable", type_name(value)));
  return std::make_shared<Elements>(value);
}

Values to_values(const Value& value) {
  if (value.is_sequence()) return value.items();
  Values all;
  const auto rest = iterate(value);
  for (Value one; rest->next(one);) {
    Budget::take_steps(1);
    Budget::take_bytes(sizeof(Value));
    all.push_back(one);
  }
  return all;
}

std::int64_t size_of(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return static_cast<std::int64_t>(value.length());
    case Kind::list:
    case Kind::tuple:
      return static_cast<std::int64_t>(value.items().size());
    case Kind::dict:
      return static_cast<std::int64_t>(value.dict().size());
    case Kind::view:
      return static_cast<std::int64_t>(value.as<View>().dict.dict().size());
    case Kind::range:
      return value.as<Range>().size();
    case Kind::loop:
      return value.as<Loop>().length();
    default:
      return -1;
  }
}

std::int64_t length_of(const Value& value) {
  const std::int64_t size = size_of(value);
  if (size < 0) fail_type(fmt::format("object of type '{}' has no len()", type_name(value)));
  return size;
}

Loop::Loop(Value over) : Object(over.depth() + 1), iterable(std::move(over)), rest(iterate(iterable)) {}

const Value& Loop::peek() {
  if (after.is(Kind::missing)) {
    Value next;
    if (rest->next(next)) after = std::move(next);
  }
  return after;
}

bool Loop::advance(Value& item) {
  if (!after.is(Kind::missing)) {
    item = std::exchange(after, Value::missing());
  } else if (!rest->next(item)) {
    return false;
  }
  ++index0;
  before = std::exchange(current, item);
  return true;
}

std::int64_t Loop::length() {
  if (known_length) return *known_length;
  std::int64_t size = size_of(iterable);
  if (size < 0) {  // an iterator: what is left of it is read now
    Values left = to_values(Value::object(Kind::iterator, rest));
    size = static_cast<std::int64_t>(left.size()) + index0 + 1 + !after.is(Kind::missing);
    rest = iterate(Value::list(std::move(left)));
  }
  return *(known_length = size);
}

void Loop::forget() {
  iterable = after = current = before = Value();
  last_changed.reset();
  rest.reset();
}

// The elements that pass a loop's `if`, decided one by one as the loop asks for them.
class Run::FilteredIterator final : public Iterator {
 public:
  FilteredIterator(Run& run, const Stmt& stmt, Activation& here, const Value& over)
      : Iterator("generator", over.depth() + 2), run_(run), stmt_(stmt), here_(here), rest_(iterate(over)) {}

  bool next(Value& to) override {
    if (!entered_) run_.enter(stmt_.test_scope, here_);
    entered_ = true;
    while (rest_->next(to)) {
      Budget::take_loop_step();
      run_.assign(*stmt_.test_target, to, here_);
      if (truth(run_.evaluate(*stmt_.test, here_))) return true;
    }
    return false;
  }

 private:
  Run& run_;
  const Stmt& stmt_;
  Activation& here_;
  std::shared_ptr<Iterator> rest_;
  bool entered_ = false;
};

Run::Flow Run::loop(const Stmt& stmt, Activation& here, Traced& out) {
  const Value iterable = evaluate(*stmt.value, here);
  require_there(iterable);
  if (!stmt.recursive) return loop_over(stmt, iterable, here, out, 0, nullptr);
  auto inner = std::make_unique<Activation>(&here, stmt.function->slot_count);
  Traced text;
  loop_over(stmt, iterable, *inner, text, 0, &here);
  append(out, text);
  release(std::move(inner));
  return Flow::on;
}

// home: of a recursive loop, where its variables begin anew for each call.
Run::Flow Run::loop_over(const Stmt& stmt, const Value& iterable, Activation& here, Traced& out, int depth0,
                         Activation* home) {
  const Value over = stmt.test ? Value::object(Kind::iterator, std::make_shared<FilteredIterator>(
                                                                   *this, stmt, home ? *home : here, iterable))
                               : iterable;
  auto state = std::make_shared<Loop>(over);
  state->depth0 = depth0;
  if (home) state->recursive = &stmt, state->home = home;
  bool none = true;
  Value item;
  while (state->advance(item)) {
    Budget::take_loop_step();
    assign(*stmt.target, std::move(item), here);
    if (stmt.loop.slot >= 0) at(stmt.loop, here) = Value::object(Kind::loop, state);
    enter(stmt.scope, here);
    const Flow flow = execute(stmt.body, here, out);
    if (flow == Flow::break_loop) break;
    if (flow == Flow::on) none = false;  // as jinja: a round that ended by `continue` does not count
  }
  leave(stmt.scope, here);
  if (stmt.loop.slot >= 0) at(stmt.loop, here) = Value::missing();
  if (state.use_count() > 1) {  // it outlives the loop, and may still ask for more elements
    (home ? *home : here).captured = true;
    keep(std::move(state));
  }
  if (!none || stmt.otherwise.empty()) return Flow::on;
  enter(stmt.else_scope, here);
  const Flow flow = execute(stmt.otherwise, here, out);
  leave(stmt.else_scope, here);
  return flow;
}

Value Run::call_loop(Loop& loop, const Value& over) {
  if (!loop.recursive) fail_type("The loop must have the 'recursive' marker to be called recursively.");
  const Deeper deeper(*this);
  if (++calls_ > options_.limits.calls)
    throw Fault{fmt::format("loops that call themselves more than {} deep", options_.limits.calls), 0, false, true};
  auto inner = std::make_unique<Activation>(loop.home, loop.recursive->function->slot_count);
  Traced text;
  loop_over(*loop.recursive, over, *inner, text, loop.depth0 + 1, loop.home);
  release(std::move(inner));
  --calls_;
  return to_value(std::move(text));
}

}  // namespace hone::jinja
