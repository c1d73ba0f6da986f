// Statements, scopes and output.
#include <fmt/format.h>

#include "text/jinja/call.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/jinja/run.h"
#include "text/jinja/run_deeper.h"

namespace hone::jinja {

using Op = Expr::Op;
using What = Stmt::What;

Run::~Run() {
  for (const auto& activation : activations_) activation->slots.clear();
  for (const auto& object : kept_) {
    if (auto* space = dynamic_cast<Space*>(object.get())) space->attributes.clear();
    if (auto* loop = dynamic_cast<Loop*>(object.get())) loop->forget();
  }
}

void Run::keep(std::shared_ptr<Object> object) {
  Budget::take_bytes(256);
  kept_.push_back(std::move(object));
}

Traced Run::render() {
  Activation root(nullptr, program_.root.slot_count);
  enter(program_.root.scope, root);
  execute(program_.body, root, text_);
  root.slots.clear();
  return std::move(text_);
}

void Run::append(Traced& out, const Traced& text) {
  out.add(text.text, text.origins);
  check_size(out);
}

void Run::check_size(const Traced& out) const {
  if (out.text.size() > options_.limits.output)
    throw Fault{fmt::format("more than {} bytes of output", options_.limits.output), 0, false, true};
}

void Run::require_there(const Value& value) const {
  if (options_.undefined != Undefined::fails) return;
  require_defined(value);
  if (value.is(Kind::none)) fail("what is written is null");
}

void Run::print(const Value& value, Traced& out) {
  require_there(value);
  if (value.is(Kind::string))
    out.add(value);
  else
    out.add(to_str(value), source_of(value));
  check_size(out);
}

Value& Run::at(const Ref& ref, Activation& here) const {
  Activation* found = &here;
  for (int i = 0; i < ref.hops; ++i) found = found->outer;
  return found->slots[static_cast<std::size_t>(ref.slot)];
}

Value Run::input(const std::string& name) const {
  if (const Value* value = options_.variables.find(name)) return *value;
  return find_global(name).value_or(Value::missing());
}

void Run::enter(const Scope& scope, Activation& here) {
  for (const Load& load : scope.loads) {
    Value& slot = here.slots[static_cast<std::size_t>(load.slot)];
    switch (load.from) {
      case Load::From::input:
        slot = input(load.name);
        break;
      case Load::From::outer:
        slot = at(load.outer, here);
        break;
      case Load::From::nowhere:
        slot = Value::missing();
        break;
    }
  }
}

void Run::leave(const Scope& scope, Activation& here) {
  for (const Load& load : scope.loads) here.slots[static_cast<std::size_t>(load.slot)] = Value::missing();
}

Run::Flow Run::execute(const Stmts& stmts, Activation& here, Traced& out) {
  for (const auto& stmt : stmts)
    if (const Flow flow = execute(*stmt, here, out); flow != Flow::on) return flow;
  return Flow::on;
}

Run::Flow Run::execute(const Stmt& stmt, Activation& here, Traced& out) {
  const Deeper deeper(*this);
  Budget::take_steps(1);
  try {
    switch (stmt.what) {
      case What::output:
        for (const ExprPtr& expr : stmt.exprs) {
          if (expr->op == Op::data) {
            out.add(expr->constant.bytes());
            check_size(out);
            continue;
          }
          print(evaluate(*expr, here), out);
        }
        return Flow::on;
      case What::branch:
        return branch(stmt, here, out);
      case What::loop:
        return loop(stmt, here, out);
      case What::set:
        check_spaces(*stmt.target, here);
        assign(*stmt.target, evaluate(*stmt.value, here), here);
        return Flow::on;
      case What::set_block:
        return set_block(stmt, here);
      case What::filter_block:
        return filter_block(stmt, here, out);
      case What::macro:
        at(stmt.named, here) = make_macro(stmt, here);
        return Flow::on;
      case What::call_block:
        call_block(stmt, here, out);
        return Flow::on;
      case What::generation:
        generation(stmt, here, out);
        return Flow::on;
      case What::with:
        return with(stmt, here, out);
      case What::break_loop:
        return Flow::break_loop;
      case What::continue_loop:
        return Flow::continue_loop;
    }
  } catch (Fault& fault) {
    if (fault.line == 0) fault.line = stmt.line;
    throw;
  }
  return Flow::on;
}

Run::Flow Run::branch(const Stmt& stmt, Activation& here, Traced& out) {
  for (const Stmt::Branch& branch : stmt.branches)
    if (truth(evaluate(*branch.test, here))) return execute(branch.body, here, out);
  return execute(stmt.otherwise, here, out);
}

Run::Flow Run::with(const Stmt& stmt, Activation& here, Traced& out) {
  enter(stmt.scope, here);
  for (std::size_t i = 0; i < stmt.targets.size(); ++i) assign(*stmt.targets[i], evaluate(*stmt.exprs[i], here), here);
  const Flow flow = execute(stmt.body, here, out);
  leave(stmt.scope, here);
  return flow;
}

Run::Flow Run::set_block(const Stmt& stmt, Activation& here) {
  enter(stmt.scope, here);
  Traced text;
  if (const Flow flow = execute(stmt.body, here, text); flow != Flow::on) return flow;
  check_spaces(*stmt.target, here);
  const Value block = to_value(std::move(text));
  assign(*stmt.target, stmt.value ? evaluate_filter(*stmt.value, here, &block) : block, here);
  leave(stmt.scope, here);
  return Flow::on;
}

Run::Flow Run::filter_block(const Stmt& stmt, Activation& here, Traced& out) {
  enter(stmt.scope, here);
  Traced text;
  if (const Flow flow = execute(stmt.body, here, text); flow != Flow::on) return flow;
  const Value block = to_value(std::move(text));
  print(evaluate_filter(*stmt.value, here, &block), out);
  leave(stmt.scope, here);
  return Flow::on;
}

void Run::call_block(const Stmt& stmt, Activation& here, Traced& out) {
  print(evaluate_call(*stmt.value, here, make_macro(stmt, here)), out);
}

// A scope of its own, as a call block. Its place is counted in what the template itself has written so far; a block
// inside a macro or a set block gets that place, too, and Template finds out whether its text really stands there.
void Run::generation(const Stmt& stmt, Activation& here, Traced& out) {
  const Traced text = run_function(stmt, std::make_unique<Activation>(&here, stmt.function->slot_count));
  generated_.push_back({text_.text.size(), text.text});
  append(out, text);
}

// ns.a = ... needs a namespace; jinja looks before it evaluates the value.
void Run::check_spaces(const Expr& target, Activation& here) {
  if (target.op == Op::space_ref && !at(target.ref, here).is(Kind::space))
    fail("cannot assign attribute on non-namespace object");
  for (const ExprPtr& part : target.parts) check_spaces(*part, here);
}

void Run::assign(const Expr& target, Value value, Activation& here) {
  if (target.op == Op::name) {
    at(target.ref, here) = std::move(value);
    return;
  }
  if (target.op == Op::space_ref) {
    if (target.attribute.starts_with('_'))
      fail(fmt::format("a namespace cannot store names that begin with an underscore; got '{}'", target.attribute));
    at(target.ref, here).as<Space>().attributes.set(target.attribute, std::move(value));
    return;
  }
  if (!is_iterable(value)) fail_type(fmt::format("cannot unpack non-iterable {} object", type_name(value)));
  Values parts = to_values(value);
  if (parts.size() != target.parts.size())
    fail_type(fmt::format("{} values to unpack (expected {}, got {})",
                          parts.size() < target.parts.size() ? "not enough" : "too many", target.parts.size(),
                          parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) assign(*target.parts[i], std::move(parts[i]), here);
}

}  // namespace hone::jinja
