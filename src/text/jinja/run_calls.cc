// Macros, call blocks, and calls of everything that can be called.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/call.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/jinja/run.h"
#include "text/jinja/run_deeper.h"

namespace hone::jinja {

using NamedValues = std::vector<std::pair<std::string, Value>>;

namespace {

std::optional<Value> take_named(NamedValues& named, std::string_view name) {
  const auto it = std::find_if(named.begin(), named.end(), [&](const auto& entry) { return entry.first == name; });
  if (it == named.end()) return std::nullopt;
  Value value = std::move(it->second);
  named.erase(it);
  return value;
}

Value dict_of(NamedValues named) {
  auto dict = std::make_shared<Dict>();
  for (auto& [name, value] : named) dict->set(name, std::move(value));
  return Value::dict(std::move(dict));
}

}  // namespace

Value Run::make_macro(const Stmt& stmt, Activation& here) {
  here.captured = true;
  return Value::object(Kind::macro, std::make_shared<Macro>(stmt, here));
}

// A macro that was made in it remembers it: then it stays until the end.
void Run::release(std::unique_ptr<Activation> activation) {
  if (!activation->captured) return;
  Budget::take_bytes(sizeof(Activation) + activation->slots.size() * sizeof(Value));
  activations_.push_back(std::move(activation));
}

Traced Run::run_function(const Stmt& stmt, std::unique_ptr<Activation> activation) {
  const Deeper deeper(*this);
  if (++calls_ > options_.limits.calls)
    throw Fault{fmt::format("macros that call each other more than {} deep", options_.limits.calls), 0, false, true};
  const Function& function = *stmt.function;
  enter(function.scope, *activation);
  const std::size_t required = function.parameters.size() - function.defaults.size();
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    Value& slot = activation->slots[static_cast<std::size_t>(function.slots[i])];
    if (!slot.is(Kind::missing)) continue;
    slot = i >= required ? evaluate(*function.defaults[i - required], *activation)
                         : Value::undefined(fmt::format("parameter '{}' was not provided", function.parameters[i]));
  }
  Traced text;
  execute(stmt.body, *activation, text);
  release(std::move(activation));
  --calls_;
  return text;
}

Value Run::call_macro(const Macro& macro, Values positional, NamedValues named) {
  const Function& function = *macro.stmt.function;
  auto activation = std::make_unique<Activation>(&macro.home, function.slot_count);
  const auto slot = [&](int number) -> Value& { return activation->slots[static_cast<std::size_t>(number)]; };
  const std::size_t given = std::min(positional.size(), function.parameters.size());
  bool caller_taken = false;
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    const std::string& name = function.parameters[i];
    caller_taken = caller_taken || name == "caller";
    slot(function.slots[i]) = i < given ? std::move(positional[i]) : take_named(named, name).value_or(Value::missing());
  }
  if (function.caller >= 0 && !caller_taken)
    slot(function.caller) = take_named(named, "caller").value_or(Value::undefined("No caller defined"));
  if (function.kwargs >= 0) {
    slot(function.kwargs) = dict_of(std::move(named));
  } else if (!named.empty()) {
    fail_type(fmt::format("macro {} takes no keyword argument '{}'", repr_of(macro.name), named[0].first));
  }
  if (function.varargs >= 0) {
    slot(function.varargs) =
        Value::tuple(Values(positional.begin() + static_cast<std::ptrdiff_t>(given), positional.end()));
  } else if (positional.size() > given) {
    fail_type(fmt::format("macro {} takes not more than {} argument(s)", repr_of(macro.name), given));
  }
  return to_value(run_function(macro.stmt, std::move(activation)));
}

Value Run::call(const Value& callee, Values positional, NamedValues named) {
  switch (callee.kind()) {
    case Kind::macro:
      return call_macro(callee.as<Macro>(), std::move(positional), std::move(named));
    case Kind::method: {
      const Method& method = callee.as<Method>();
      Call call{*this, method.name, std::move(positional), std::move(named)};
      return call_method(method.self, method.name, call);
    }
    case Kind::function: {
      const std::string& name = callee.as<GlobalFunction>().name;
      Call call{*this, name, std::move(positional), std::move(named)};
      return call_global(name, call);
    }
    case Kind::loop: {
      Call call{*this, "loop", std::move(positional), std::move(named)};
      const auto bound = call.bind({"iterable"}, 1);
      return call_loop(callee.as<Loop>(), *bound[0]);
    }
    case Kind::joiner: {
      Joiner& joiner = callee.as<Joiner>();
      return std::exchange(joiner.used, true) ? joiner.separator : Value::string("");
    }
    default:
      require_defined(callee);
      fail_type(fmt::format("'{}' object is not callable", type_name(callee)));
  }
}

void Run::evaluate_arguments(const Arguments& arguments, Activation& here, Values& positional, NamedValues& named) {
  positional = evaluate_each(arguments.positional, here);
  for (const auto& [name, value] : arguments.named) named.emplace_back(name, evaluate(*value, here));
  if (arguments.rest)
    for (Value& value : to_values(evaluate(*arguments.rest, here))) positional.push_back(std::move(value));
  if (!arguments.named_rest) return;
  const Value rest = evaluate(*arguments.named_rest, here);
  if (!rest.is(Kind::dict)) fail_type(fmt::format("argument after ** must be a mapping, not {}", type_name(rest)));
  for (const auto& [key, value] : rest.dict().entries()) {
    if (!key.is(Kind::string)) fail_type("keywords must be strings");
    for (const auto& [name, other] : named)
      if (name == key.bytes()) fail_type(fmt::format("got multiple values for keyword argument '{}'", name));
    named.emplace_back(key.bytes(), value);
  }
}

Value Run::evaluate_call(const Expr& expr, Activation& here, std::optional<Value> caller) {
  const Value callee = evaluate(*expr.parts[0], here);
  Values positional;
  NamedValues named;
  evaluate_arguments(*expr.arguments, here, positional, named);
  if (caller) named.emplace_back("caller", std::move(*caller));
  try {
    return call(callee, std::move(positional), std::move(named));
  } catch (Fault& fault) {
    if (fault.line == 0) fault.line = expr.line;
    throw;
  }
}

// block: what a filter block wrote, the input of the innermost filter.
Value Run::evaluate_filter(const Expr& expr, Activation& here, const Value* block) {
  if (expr.op != Expr::Op::filter) return evaluate(expr, here);
  const Deeper deeper(*this);
  const Value input =
      expr.parts[0] ? evaluate_filter(*expr.parts[0], here, block) : block ? *block : Value::string("");
  Values positional;
  NamedValues named;
  evaluate_arguments(*expr.arguments, here, positional, named);
  try {
    const bool may_miss = expr.name == "default" || expr.name == "d";
    if (!may_miss && !(expr.name == "tojson" && input.is(Kind::none))) require_there(input);
    if (!may_miss && options_.undefined == Undefined::fails)
      for (const Value& one : positional) require_defined(one);
    return call_filter(*this, expr.name, input, std::move(positional), std::move(named));
  } catch (Fault& fault) {
    if (fault.line == 0) fault.line = expr.line;
    throw;
  }
}

Value Run::evaluate_test(const Expr& expr, Activation& here) {
  const Value input = evaluate(*expr.parts[0], here);
  Values positional;
  NamedValues named;
  evaluate_arguments(*expr.arguments, here, positional, named);
  return Value::boolean(call_test(*this, expr.name, input, std::move(positional), std::move(named)));
}

}  // namespace hone::jinja
