// Gives every name its slot and every scope what it loads when it is entered; refuses unknown filters and tests.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "text/jinja/call.h"
#include "text/jinja/fault.h"
#include "text/jinja/symbols.h"

namespace hone::jinja {
namespace {

using Op = Expr::Op;
using What = Stmt::What;

bool stores_loop(const Expr* target) {
  if (!target) return false;
  if (target->op == Op::name) return target->name == "loop";
  return std::any_of(target->parts.begin(), target->parts.end(),
                     [](const ExprPtr& part) { return stores_loop(part.get()); });
}
bool stores_loop(const Stmts& stmts) {
  return std::any_of(stmts.begin(), stmts.end(), [](const auto& stmt) {
    return (stmt->what != What::with && stores_loop(stmt->target.get())) || stores_loop(stmt->body) ||
           stores_loop(stmt->otherwise) ||
           std::any_of(stmt->branches.begin(), stmt->branches.end(),
                       [](const Stmt::Branch& branch) { return stores_loop(branch.body); });
  });
}

void declare_target(Symbols& symbols, const Expr& target) {
  if (target.op == Op::name) symbols.declare(target.name);
  for (const ExprPtr& part : target.parts) declare_target(symbols, *part);
}

ExprPtr copy_of_target(const Expr& target) {
  auto copy = std::make_unique<Expr>();
  copy->op = target.op;
  copy->line = target.line;
  copy->name = target.name;
  for (const ExprPtr& part : target.parts) copy->parts.push_back(copy_of_target(*part));
  return copy;
}

class Resolver {
 public:
  void program(Program& program) {
    Frame& frame = frames_.emplace_back(nullptr);
    Symbols symbols(frame);
    visit(symbols, program.body);
    resolve(program.body, symbols, false);
    program.root.scope = symbols.scope();
    program.root.slot_count = static_cast<int>(frame.slots.size());
  }

 private:
  // soft: inside an `if`, where a filter that nobody knows fails only when it is used.
  void resolve(const Stmts& stmts, const Symbols& symbols, bool soft) {
    for (const auto& stmt : stmts) resolve(*stmt, symbols, soft);
  }

  void resolve(Expr* expr, const Symbols& symbols, bool soft) {
    if (!expr) return;
    if (expr->op == Op::name || expr->op == Op::space_ref)
      expr->ref = ref_from(symbols.frame(), *symbols.find(expr->name));
    if (expr->op == Op::filter && !find_filter(expr->name) && !soft) fail_at(expr->line, unknown_filter(expr->name));
    if (expr->op == Op::test && !find_test(expr->name) && !soft) fail_at(expr->line, unknown_test(expr->name));
    const bool inner_soft = soft || expr->op == Op::condition;
    each_part(*expr, [&](const Expr& part) { resolve(const_cast<Expr*>(&part), symbols, inner_soft); });
  }

  void resolve(Stmt& stmt, const Symbols& symbols, bool soft) {
    switch (stmt.what) {
      case What::output:
        for (const ExprPtr& expr : stmt.exprs) resolve(expr.get(), symbols, soft);
        return;
      case What::branch:
        for (const Stmt::Branch& branch : stmt.branches) {
          resolve(branch.test.get(), symbols, true);
          resolve(branch.body, symbols, true);
        }
        return resolve(stmt.otherwise, symbols, true);
      case What::set:
        resolve(stmt.target.get(), symbols, soft);
        return resolve(stmt.value.get(), symbols, soft);
      case What::loop:
        return resolve_loop(stmt, symbols, soft);
      case What::macro:
        stmt.named = ref_from(symbols.frame(), *symbols.find(stmt.function->name));
        return resolve_function(stmt, symbols);
      case What::call_block:
        resolve(stmt.value.get(), symbols, soft);
        return resolve_function(stmt, symbols);
      case What::generation:
        return resolve_function(stmt, symbols);
      case What::set_block:
      case What::filter_block:
        return resolve_capture(stmt, symbols, soft);
      case What::with:
        return resolve_with(stmt, symbols, soft);
      case What::break_loop:
      case What::continue_loop:
        if (loops_ == 0) fail_at(stmt.line, "break or continue outside a loop");
        return;
    }
  }

  void resolve_loop(Stmt& stmt, const Symbols& symbols, bool soft) {
    if (stores_loop(stmt.target.get()) || stores_loop(stmt.body) || stores_loop(stmt.otherwise))
      fail_at(stmt.line, "cannot assign to the special variable 'loop' in a for loop");
    resolve(stmt.value.get(), symbols, soft);
    Frame* frame = &symbols.frame();
    if (stmt.recursive) {
      frame = &frames_.emplace_back(frame);
      stmt.function = std::make_unique<Function>();
    }
    Symbols inner(symbols, *frame);
    if (stmt.recursive || !undeclared(stmt.body, {"loop"}).empty()) stmt.loop = {0, inner.declare("loop").slot};
    declare_target(inner, *stmt.target);
    visit(inner, stmt.body);
    if (stmt.test) resolve_loop_test(stmt, symbols);
    resolve(stmt.target.get(), inner, false);
    ++loops_;
    resolve(stmt.body, inner, false);
    --loops_;
    stmt.scope = inner.scope();
    Symbols otherwise(symbols, *frame);
    visit(otherwise, stmt.otherwise);
    resolve(stmt.otherwise, otherwise, false);
    stmt.else_scope = otherwise.scope();
    if (stmt.recursive) stmt.function->slot_count = static_cast<int>(frame->slots.size());
  }

  // The test has a scope of its own: it may run for the next element while the body is at this one.
  void resolve_loop_test(Stmt& stmt, const Symbols& symbols) {
    Symbols scope(symbols, symbols.frame(), "t");
    stmt.test_target = copy_of_target(*stmt.target);
    declare_target(scope, *stmt.target);
    visit(scope, stmt.test.get());
    resolve(stmt.test_target.get(), scope, false);
    resolve(stmt.test.get(), scope, false);
    stmt.test_scope = scope.scope();
  }

  void resolve_function(Stmt& stmt, const Symbols& symbols) {
    Function& function = *stmt.function;
    Frame& frame = frames_.emplace_back(&symbols.frame());
    Symbols inner(symbols, frame);
    for (const std::string& name : function.parameters) function.slots.push_back(inner.declare(name).slot);
    const auto visit_all = [&] {
      for (const ExprPtr& value : function.defaults) visit(inner, value.get());
      visit(inner, stmt.body);
    };
    visit_all();
    const auto special = undeclared(stmt.body, {"caller", "kwargs", "varargs"});
    const auto is_parameter = [&](const char* name) {
      return std::find(function.parameters.begin(), function.parameters.end(), name) != function.parameters.end();
    };
    if (special.count("caller")) {
      if (!is_parameter("caller"))
        function.caller = inner.declare("caller").slot;
      else if (function.defaults.empty())
        fail_at(stmt.line, "the special parameter 'caller' must be left out or have a default");
    }
    if (special.count("kwargs") && !is_parameter("kwargs")) function.kwargs = inner.declare("kwargs").slot;
    if (special.count("varargs") && !is_parameter("varargs")) function.varargs = inner.declare("varargs").slot;
    visit_all();
    for (const ExprPtr& value : function.defaults) resolve(value.get(), inner, false);
    const int loops = std::exchange(loops_, 0);
    resolve(stmt.body, inner, false);
    loops_ = loops;
    function.scope = inner.scope();
    function.slot_count = static_cast<int>(frame.slots.size());
  }

  void resolve_capture(Stmt& stmt, const Symbols& symbols, bool soft) {
    if (stmt.target) resolve(stmt.target.get(), symbols, soft);
    Symbols inner(symbols, symbols.frame());
    visit(inner, stmt.body);
    visit(inner, stmt.value.get());
    resolve(stmt.body, inner, false);
    resolve(stmt.value.get(), inner, false);
    stmt.scope = inner.scope();
  }

  void resolve_with(Stmt& stmt, const Symbols& symbols, bool soft) {
    for (const ExprPtr& value : stmt.exprs) resolve(value.get(), symbols, soft);
    Symbols inner(symbols, symbols.frame());
    for (const ExprPtr& target : stmt.targets) declare_target(inner, *target);
    visit(inner, stmt.body);
    for (const ExprPtr& target : stmt.targets) resolve(target.get(), inner, false);
    resolve(stmt.body, inner, false);
    stmt.scope = inner.scope();
  }

  std::deque<Frame> frames_;
  int loops_ = 0;  // around the statement at hand, in its function
};

}  // namespace

void resolve_names(Program& program) { Resolver().program(program); }

}  // namespace hone::jinja
