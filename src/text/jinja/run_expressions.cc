// Expressions.
#include <fmt/format.h>

#include "text/jinja/call.h"
#include "text/jinja/compare.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/jinja/run.h"
#include "text/jinja/run_deeper.h"

namespace hone::jinja {

using Op = Expr::Op;

namespace {

char sign_of(Op op) {
  switch (op) {
    case Op::subtract:
      return '-';
    case Op::multiply:
      return '*';
    case Op::divide:
      return '/';
    case Op::floor_divide:
      return 'f';
    case Op::modulo:
      return '%';
    default:
      return 'p';
  }
}

bool holds(Sign sign, const Value& left, const Value& right) {
  switch (sign) {
    case Sign::eq:
      return equal(left, right);
    case Sign::ne:
      return !equal(left, right);
    case Sign::lt:
      return order(left, right, "<") == -1;
    case Sign::gt:
      return order(left, right, ">") == 1;
    case Sign::le: {
      const int o = order(left, right, "<=");
      return o == -1 || o == 0;
    }
    case Sign::ge: {
      const int o = order(left, right, ">=");
      return o == 1 || o == 0;
    }
    case Sign::in:
      return contains(right, left);
    case Sign::not_in:
      return !contains(right, left);
  }
  return false;
}

Value trace_arithmetic(Value made, const Values& parts) {
  return made.is(Kind::string) ? traced_to(mixed(source_of(parts[0]), source_of(parts[1])), made) : made;
}

}  // namespace

Values Run::evaluate_each(const Exprs& exprs, Activation& here) {
  Values values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) values.push_back(evaluate(*expr, here));
  return values;
}

Value Run::evaluate(const Expr& expr, Activation& here) {
  const Deeper deeper(*this);
  Budget::take_steps(1);
  switch (expr.op) {
    case Op::constant:
    case Op::data:
      return expr.constant;
    case Op::name: {
      const Value& value = at(expr.ref, here);
      return value.is(Kind::missing) ? Value::undefined(fmt::format("'{}' is undefined", expr.name)) : value;
    }
    case Op::both: {
      Value left = evaluate(*expr.parts[0], here);
      return truth(left) ? evaluate(*expr.parts[1], here) : left;
    }
    case Op::either: {
      Value left = evaluate(*expr.parts[0], here);
      return truth(left) ? left : evaluate(*expr.parts[1], here);
    }
    case Op::condition:
      if (truth(evaluate(*expr.parts[0], here))) return evaluate(*expr.parts[1], here);
      if (expr.parts[2]) return evaluate(*expr.parts[2], here);
      if (options_.undefined == Undefined::fails) return Value::string("");  // nothing is missing
      return Value::undefined(fmt::format(
          "the inline if-expression on line {} evaluated to false and no else section was defined.", expr.line));
    case Op::invert:
      return Value::boolean(!truth(evaluate(*expr.parts[0], here)));
    case Op::attribute:
      return get_attribute(*this, evaluate(*expr.parts[0], here), expr.attribute);
    case Op::item:
      return evaluate_item(expr, here);
    case Op::call:
      return evaluate_call(expr, here, std::nullopt);
    case Op::filter:
      return evaluate_filter(expr, here, nullptr);
    case Op::test:
      return evaluate_test(expr, here);
    case Op::compare:
      return evaluate_compare(expr, here);
    case Op::dict:
      return evaluate_dict(expr, here);
    case Op::slice:  // in a tuple, as in x[1, :2]
      fail_type("unhashable type: 'slice'");
    default:
      return evaluate_all(expr, here);
  }
}

// Operators that need all of their parts.
Value Run::evaluate_all(const Expr& expr, Activation& here) {
  Values parts = evaluate_each(expr.parts, here);
  switch (expr.op) {
    case Op::tuple:
      return Value::tuple(std::move(parts));
    case Op::list:
      return Value::list(std::move(parts));
    case Op::negate:
      return negated(parts[0]);
    case Op::plus:
      require_defined(parts[0]);
      if (!parts[0].is_number()) fail_type(fmt::format("bad operand type for unary +: '{}'", type_name(parts[0])));
      return parts[0].is(Kind::boolean) ? Value::integer(parts[0].as_int()) : parts[0];
    case Op::concat: {
      Traced made;
      for (const Value& part : parts) {
        require_there(part);
        const Value more = soft_str(part);
        Budget::check_text(made.text.size() + more.bytes().size());
        made.add(more);
      }
      return to_value(std::move(made));
    }
    case Op::add:
      return add(parts[0], parts[1]);
    default:
      return trace_arithmetic(arithmetic(sign_of(expr.op), parts[0], parts[1]), parts);
  }
}

// a < b < c: each part is evaluated once, and none after the first that does not hold.
Value Run::evaluate_compare(const Expr& expr, Activation& here) {
  Value left = evaluate(*expr.parts[0], here);
  for (std::size_t i = 0; i < expr.signs.size(); ++i) {
    Value right = evaluate(*expr.parts[i + 1], here);
    if (!holds(expr.signs[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Run::evaluate_item(const Expr& expr, Activation& here) {
  const Value object = evaluate(*expr.parts[0], here);
  const Expr& key = *expr.parts[1];
  if (key.op != Op::slice) return get_item(*this, object, evaluate(key, here));
  const auto part = [&](std::size_t i) { return key.parts[i] ? evaluate(*key.parts[i], here) : Value(); };
  const Value start = part(0), stop = part(1), step = part(2);
  return get_slice(object, start, stop, step);
}

Value Run::evaluate_dict(const Expr& expr, Activation& here) {
  auto dict = std::make_shared<Dict>();
  for (std::size_t i = 0; i < expr.parts.size(); i += 2) {
    Value key = evaluate(*expr.parts[i], here);
    dict->set(std::move(key), evaluate(*expr.parts[i + 1], here));
  }
  return Value::dict(std::move(dict));
}

}  // namespace hone::jinja
