// One rendering: evaluates a program over the caller's variables.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/traced.h"
#include "text/jinja/value.h"

namespace hone::jinja {

// The variables of one call of a function. Owned by the run once a macro remembers it.
struct Activation {
  Activation(Activation* outer, int slots) : outer(outer), slots(static_cast<std::size_t>(slots), Value::missing()) {}
  Activation* const outer;
  Values slots;
  bool captured = false;
};

struct Space final : Object {
  Dict attributes;
};

struct Macro final : Object {
  Macro(const Stmt& stmt, Activation& home) : stmt(stmt), name(stmt.function->name), home(home) {}
  const Stmt& stmt;
  std::string name;  // "": a call block's body
  Activation& home;
};

struct Method final : Object {
  Method(Value self, std::string name) : Object(self.depth() + 1), self(std::move(self)), name(std::move(name)) {}
  Value self;
  std::string name;
};

struct GlobalFunction final : Object {
  explicit GlobalFunction(std::string name) : name(std::move(name)) {}
  std::string name;
};

struct Cycler final : Object {
  explicit Cycler(Values values);
  Values values;
  std::size_t at = 0;
};
struct Joiner final : Object {
  explicit Joiner(Value separator) : Object(separator.depth() + 1), separator(std::move(separator)) {}
  Value separator;
  bool used = false;
};

// The variable `loop`.
struct Loop final : Object {
  explicit Loop(Value over);
  bool advance(Value& item);
  std::int64_t length();
  const Value& peek();  // the next element, or missing
  void forget();        // drops every value it holds

  Value iterable;
  std::shared_ptr<Iterator> rest;
  std::int64_t index0 = -1;
  int depth0 = 0;
  std::optional<std::int64_t> known_length;
  Value after = Value::missing(), current = Value::missing(), before = Value::missing();
  std::optional<Values> last_changed;
  const Stmt* recursive = nullptr;  // with `recursive`: what a call of the loop renders
  Activation* home = nullptr;
};

class Run {
 public:
  struct Options {
    const Dict& variables;
    std::int64_t now;  // for strftime_now: seconds since 1970
    const Limits& limits;
    Undefined undefined = Undefined::prints_nothing;
  };
  Run(const Program& program, const Options& options) : program_(program), options_(options) {}
  ~Run();

  Traced render();
  // The byte ranges of {% generation %} blocks in the text, and each block's own text.
  struct Generated {
    std::size_t begin;
    std::string text;
  };
  const std::vector<Generated>& generated() const { return generated_; }

  Value call(const Value& callee, Values positional, std::vector<std::pair<std::string, Value>> named);
  Value call_loop(Loop& loop, const Value& over);
  void require_there(const Value& value) const;  // where undefined values and nulls fail
  std::int64_t now() const { return options_.now; }
  // Keeps what a template can change until the end, when its contents are dropped: so nothing holds itself alive.
  void keep(std::shared_ptr<Object> object);

 private:
  enum class Flow { on, break_loop, continue_loop };
  class Deeper;
  class FilteredIterator;
  friend class FilteredIterator;

  Flow execute(const Stmts& stmts, Activation& here, Traced& out);
  Flow execute(const Stmt& stmt, Activation& here, Traced& out);
  Flow branch(const Stmt& stmt, Activation& here, Traced& out);
  Flow loop(const Stmt& stmt, Activation& here, Traced& out);
  Flow loop_over(const Stmt& stmt, const Value& iterable, Activation& here, Traced& out, int depth0,
                 Activation* home);
  Flow with(const Stmt& stmt, Activation& here, Traced& out);
  Flow set_block(const Stmt& stmt, Activation& here);
  Flow filter_block(const Stmt& stmt, Activation& here, Traced& out);
  void call_block(const Stmt& stmt, Activation& here, Traced& out);
  void generation(const Stmt& stmt, Activation& here, Traced& out);
  void print(const Value& value, Traced& out);
  void append(Traced& out, const Traced& text);
  void check_size(const Traced& out) const;

  void enter(const Scope& scope, Activation& here);
  void leave(const Scope& scope, Activation& here);
  Value input(const std::string& name) const;
  Value& at(const Ref& ref, Activation& here) const;
  void assign(const Expr& target, Value value, Activation& here);
  void check_spaces(const Expr& target, Activation& here);
  Value make_macro(const Stmt& stmt, Activation& here);
  Value call_macro(const Macro& macro, Values positional, std::vector<std::pair<std::string, Value>> named);
  Traced run_function(const Stmt& stmt, std::unique_ptr<Activation> activation);
  void release(std::unique_ptr<Activation> activation);

  Value evaluate(const Expr& expr, Activation& here);
  Value evaluate_all(const Expr& expr, Activation& here);
  Value evaluate_compare(const Expr& expr, Activation& here);
  Value evaluate_item(const Expr& expr, Activation& here);
  Value evaluate_dict(const Expr& expr, Activation& here);
  Value evaluate_call(const Expr& expr, Activation& here, std::optional<Value> caller);
  Value evaluate_filter(const Expr& expr, Activation& here, const Value* block);
  Value evaluate_test(const Expr& expr, Activation& here);
  Values evaluate_each(const Exprs& exprs, Activation& here);
  void evaluate_arguments(const Arguments& arguments, Activation& here, Values& positional,
                          std::vector<std::pair<std::string, Value>>& named);

  const Program& program_;
  const Options options_;
  Traced text_;
  std::vector<Generated> generated_;
  std::vector<std::unique_ptr<Activation>> activations_;
  std::vector<std::shared_ptr<Object>> kept_;
  int nesting_ = 0, calls_ = 0;
};

}  // namespace hone::jinja
