// What follows a value: attributes, items, slices, calls, filters and tests.
#include <fmt/format.h>

#include "text/jinja/fault.h"
#include "text/jinja/parser.h"

namespace hone::jinja {

using Op = Expr::Op;
using Type = Token::Type;

namespace {

Exprs one(ExprPtr part) {
  Exprs parts;
  parts.push_back(std::move(part));
  return parts;
}
Exprs two(ExprPtr first, ExprPtr second) {
  Exprs parts = one(std::move(first));
  parts.push_back(std::move(second));
  return parts;
}

}  // namespace

ExprPtr ExprParser::postfix(ExprPtr node) {
  for (;;) {
    if (tokens_.is_sign(".") || tokens_.is_sign("["))
      node = subscript(std::move(node));
    else if (tokens_.is_sign("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExprPtr ExprParser::filters_and_tests(ExprPtr node) {
  for (;;) {
    if (tokens_.is_sign("|"))
      node = filters(std::move(node));
    else if (tokens_.is_name("is"))
      node = test(std::move(node));
    else if (tokens_.is_sign("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExprPtr ExprParser::subscript(ExprPtr node) {
  const int line = tokens_.line();
  if (tokens_.take_sign(".")) {
    if (tokens_.is(Type::name)) {
      ExprPtr made = make(Op::attribute, line, one(std::move(node)));
      made->attribute = tokens_.take().text;
      return made;
    }
    if (!tokens_.is(Type::integer)) tokens_.fail_here("a name or a number");
    ExprPtr index = make(Op::constant, line);
    index->constant = Value::integer(tokens_.take().integer);
    return make(Op::item, line, two(std::move(node), std::move(index)));
  }
  tokens_.need_sign("[");
  Exprs keys;
  while (!tokens_.is_sign("]")) {
    if (!keys.empty()) tokens_.need_sign(",");
    keys.push_back(subscribed());
  }
  tokens_.need_sign("]");
  ExprPtr key = keys.size() == 1 ? std::move(keys[0]) : make(Op::tuple, line, std::move(keys));
  return make(Op::item, line, two(std::move(node), std::move(key)));
}

// One key, or start:stop:step with each of them optional.
ExprPtr ExprParser::subscribed() {
  const int line = tokens_.line();
  const auto ends = [&] { return tokens_.is_sign("]") || tokens_.is_sign(","); };
  ExprPtr start, stop, step;
  if (!tokens_.is_sign(":")) {
    start = expression();
    if (!tokens_.is_sign(":")) return start;
  }
  tokens_.need_sign(":");
  if (!tokens_.is_sign(":") && !ends()) stop = expression();
  if (tokens_.take_sign(":") && !ends()) step = expression();
  Exprs parts = two(std::move(start), std::move(stop));
  parts.push_back(std::move(step));
  return make(Op::slice, line, std::move(parts));
}

std::unique_ptr<Arguments> ExprParser::arguments() {
  const int line = tokens_.line();
  auto all = std::make_unique<Arguments>();
  const auto ensure = [&](bool holds) {
    if (!holds) fail_at(line, "invalid order of arguments in a call");
  };
  tokens_.need_sign("(");
  for (bool first = true; !tokens_.is_sign(")"); first = false) {
    if (!first) {
      tokens_.need_sign(",");
      if (tokens_.is_sign(")")) break;
    }
    if (tokens_.take_sign("*")) {
      ensure(!all->rest && !all->named_rest);
      all->rest = expression();
    } else if (tokens_.take_sign("**")) {
      ensure(!all->named_rest);
      all->named_rest = expression();
    } else if (tokens_.is(Type::name) && tokens_.look().type == Type::sign && tokens_.look().text == "=") {
      ensure(!all->named_rest);
      std::string name = tokens_.take().text;
      tokens_.take();
      for (const auto& [other, value] : all->named)
        if (other == name) fail_at(line, fmt::format("keyword argument repeated: {}", name));
      all->named.emplace_back(std::move(name), expression());
    } else {
      ensure(!all->rest && !all->named_rest && all->named.empty());
      all->positional.push_back(expression());
    }
  }
  tokens_.need_sign(")");
  return all;
}

ExprPtr ExprParser::call(ExprPtr node) {
  const int line = tokens_.line();
  ExprPtr made = make(Op::call, line, one(std::move(node)));
  made->arguments = arguments();
  return made;
}

ExprPtr ExprParser::filters(ExprPtr input, bool first_is_here) {
  while (tokens_.is_sign("|") || first_is_here) {
    if (!first_is_here) tokens_.take();
    first_is_here = false;
    const int line = tokens_.line();
    std::string name = tokens_.need_name();
    while (tokens_.take_sign(".")) name += "." + tokens_.need_name();
    ExprPtr made = make(Op::filter, line, one(std::move(input)));
    made->name = std::move(name);
    made->arguments = tokens_.is_sign("(") ? arguments() : std::make_unique<Arguments>();
    input = std::move(made);
  }
  return input;
}

ExprPtr ExprParser::test(ExprPtr node) {
  const Token is = tokens_.take();
  const bool negated = tokens_.take_name("not");
  std::string name = tokens_.need_name();
  while (tokens_.take_sign(".")) name += "." + tokens_.need_name();
  ExprPtr made = make(Op::test, is.line, one(std::move(node)));
  made->name = std::move(name);
  made->arguments = std::make_unique<Arguments>();
  const bool value = tokens_.is(Type::name) || tokens_.is(Type::string) || tokens_.is(Type::integer) ||
                     tokens_.is(Type::real) || tokens_.is_sign("[") || tokens_.is_sign("{");
  if (tokens_.is_sign("(")) {
    made->arguments = arguments();
  } else if (value && !tokens_.is_name("else") && !tokens_.is_name("or") && !tokens_.is_name("and")) {
    if (tokens_.is_name("is")) fail_at(tokens_.line(), "tests cannot be chained with is");
    ExprPtr argument = postfix(primary());
    made->arguments->positional.push_back(std::move(argument));
  }
  return negated ? make(Op::invert, is.line, one(std::move(made))) : std::move(made);
}

}  // namespace hone::jinja
