// Expressions with jinja's precedence; among others `not` binds weaker than comparisons, `~` stronger than `+`.
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "text/jinja/budget.h"
#include "text/jinja/fault.h"
#include "text/jinja/parser.h"

namespace hone::jinja {

using Op = Expr::Op;
using Type = Token::Type;

std::string describe(const Token& token) {
  switch (token.type) {
    case Type::data:
      return "text";
    case Type::variable_begin:
      return "'{{'";
    case Type::variable_end:
      return "'}}'";
    case Type::block_begin:
      return "'{%'";
    case Type::block_end:
      return "'%}'";
    case Type::string:
      return "a string";
    case Type::integer:
    case Type::real:
      return "a number";
    case Type::end:
      return "the end of the template";
    default:
      return "'" + escape_for_terminal(token.text, 40) + "'";
  }
}

void TokenReader::fail_here(const std::string& expected) const {
  fail_at(line(), fmt::format("expected {}, got {}", expected, describe(now())));
}
bool TokenReader::take_sign(std::string_view text) {
  if (!is_sign(text)) return false;
  take();
  return true;
}
bool TokenReader::take_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}
void TokenReader::need_sign(std::string_view text) {
  if (!take_sign(text)) fail_here(fmt::format("'{}'", text));
}
void TokenReader::need_name(std::string_view text) {
  if (!take_name(text)) fail_here(fmt::format("'{}'", text));
}
std::string TokenReader::need_name() {
  if (!is(Type::name)) fail_here("a name");
  return take().text;
}
void TokenReader::need(Type type) {
  if (!is(type)) fail_here(describe({type, 0, {}}));
  take();
}

class ExprParser::Deeper {
 public:
  explicit Deeper(ExprParser& parser) : parser_(parser) {
    if (++parser_.depth_ > 4 * kMaxDepth)  // about four of these calls per parenthesis
      fail_at(parser_.tokens_.line(), fmt::format("expressions nested deeper than {}", kMaxDepth));
  }
  ~Deeper() { --parser_.depth_; }

 private:
  ExprParser& parser_;
};

ExprPtr ExprParser::make(Op op, int line, Exprs parts) const {
  auto made = std::make_unique<Expr>();
  made->op = op;
  made->line = line;
  for (const ExprPtr& part : parts)
    if (part) made->depth = std::max(made->depth, part->depth + 1);
  // Long chains of operators are as deep as they are long, without any recursion here.
  if (made->depth > kMaxDepth) fail_at(line, fmt::format("expressions nested deeper than {}", kMaxDepth));
  made->parts = std::move(parts);
  return made;
}

namespace {

template <class... Parts>
Exprs exprs(Parts&&... parts) {
  Exprs all;
  (all.push_back(std::forward<Parts>(parts)), ...);
  return all;
}

}  // namespace

ExprPtr ExprParser::expression() { return condition(); }

ExprPtr ExprParser::condition() {
  const Deeper deeper(*this);
  int line = tokens_.line();
  ExprPtr node = either();
  while (tokens_.take_name("if")) {
    ExprPtr test = either();
    ExprPtr otherwise = tokens_.take_name("else") ? condition() : nullptr;
    node = make(Op::condition, line, exprs(std::move(test), std::move(node), std::move(otherwise)));
    line = tokens_.line();
  }
  return node;
}

ExprPtr ExprParser::either() {
  const int line = tokens_.line();
  ExprPtr left = both();
  while (tokens_.take_name("or")) left = make(Op::either, line, exprs(std::move(left), both()));
  return left;
}

ExprPtr ExprParser::both() {
  const int line = tokens_.line();
  ExprPtr left = invert();
  while (tokens_.take_name("and")) left = make(Op::both, line, exprs(std::move(left), invert()));
  return left;
}

ExprPtr ExprParser::invert() {
  const Deeper deeper(*this);
  const int line = tokens_.line();
  if (!tokens_.take_name("not")) return compare();
  return make(Op::invert, line, exprs(invert()));
}

ExprPtr ExprParser::compare() {
  const int line = tokens_.line();
  Exprs parts = exprs(sum());
  std::vector<Sign> signs;
  for (;;) {
    constexpr std::pair<std::string_view, Sign> kSigns[] = {{"==", Sign::eq}, {"!=", Sign::ne}, {"<", Sign::lt},
                                                            {"<=", Sign::le}, {">", Sign::gt},  {">=", Sign::ge}};
    const auto found = std::find_if(std::begin(kSigns), std::end(kSigns),
                                    [&](const auto& sign) { return tokens_.is_sign(sign.first); });
    if (found != std::end(kSigns)) {
      signs.push_back(found->second);
    } else if (tokens_.is_name("in")) {
      signs.push_back(Sign::in);
    } else if (tokens_.is_name("not") && tokens_.look().type == Type::name && tokens_.look().text == "in") {
      tokens_.take();
      signs.push_back(Sign::not_in);
    } else {
      break;
    }
    tokens_.take();
    parts.push_back(sum());
  }
  if (signs.empty()) return std::move(parts[0]);
  ExprPtr node = make(Op::compare, line, std::move(parts));
  node->signs = std::move(signs);
  return node;
}

template <class Next>
ExprPtr ExprParser::binary(std::initializer_list<std::pair<std::string_view, Op>> signs, Next&& next) {
  const int line = tokens_.line();
  ExprPtr left = next();
  for (;;) {
    const auto found =
        std::find_if(signs.begin(), signs.end(), [&](const auto& sign) { return tokens_.is_sign(sign.first); });
    if (found == signs.end()) return left;
    tokens_.take();
    left = make(found->second, line, exprs(std::move(left), next()));
  }
}

ExprPtr ExprParser::sum() {
  return binary({{"+", Op::add}, {"-", Op::subtract}}, [this] { return concat(); });
}

ExprPtr ExprParser::concat() {
  const int line = tokens_.line();
  Exprs parts = exprs(product());
  while (tokens_.take_sign("~")) parts.push_back(product());
  return parts.size() == 1 ? std::move(parts[0]) : make(Op::concat, line, std::move(parts));
}

ExprPtr ExprParser::product() {
  return binary({{"*", Op::multiply}, {"/", Op::divide}, {"//", Op::floor_divide}, {"%", Op::modulo}},
                [this] { return power(); });
}

ExprPtr ExprParser::power() {
  return binary({{"**", Op::power}}, [this] { return unary(true); });
}

ExprPtr ExprParser::unary(bool with_filters) {
  const Deeper deeper(*this);
  const int line = tokens_.line();
  ExprPtr node;
  if (tokens_.take_sign("-"))
    node = make(Op::negate, line, exprs(unary(false)));
  else if (tokens_.take_sign("+"))
    node = make(Op::plus, line, exprs(unary(false)));
  else
    node = primary();
  node = postfix(std::move(node));
  return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExprParser::name_or_constant(bool spaces) {
  const Token token = tokens_.take();
  ExprPtr node = make(Op::constant, token.line);
  if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
    node->constant = Value::boolean(token.text == "true" || token.text == "True");
  } else if (token.text == "none" || token.text == "None") {
    node->constant = Value();
  } else {
    node->op = Op::name;
    node->name = token.text;
    if (spaces && tokens_.take_sign(".")) {
      node->op = Op::space_ref;
      node->attribute = tokens_.need_name();
    }
  }
  return node;
}

ExprPtr ExprParser::primary(bool spaces) {
  const int line = tokens_.line();
  const auto constant = [&](Value value) {
    ExprPtr node = make(Op::constant, line);
    node->constant = std::move(value);
    return node;
  };
  if (tokens_.is(Type::name)) return name_or_constant(spaces);
  if (tokens_.is(Type::string)) {
    std::string text;
    while (tokens_.is(Type::string)) text += tokens_.take().text;
    return constant(Value::string(std::move(text)));
  }
  if (tokens_.is(Type::integer)) return constant(Value::integer(tokens_.take().integer));
  if (tokens_.is(Type::real)) return constant(Value::real(tokens_.take().real));
  if (tokens_.take_sign("(")) {
    ExprPtr inside = tuple(true, "", true);
    tokens_.need_sign(")");
    return inside;
  }
  if (tokens_.is_sign("[")) return list();
  if (tokens_.is_sign("{")) return dict();
  fail_at(line, "unexpected " + describe(tokens_.now()));
}

ExprPtr ExprParser::tuple(bool conditions, std::string_view end, bool in_parentheses) {
  const Deeper deeper(*this);
  const int line = tokens_.line();
  const auto at_end = [&] {
    return tokens_.is(Type::variable_end) || tokens_.is(Type::block_end) || tokens_.is_sign(")") ||
           (!end.empty() && tokens_.is_name(end));
  };
  Exprs parts;
  bool many = false;
  for (;;) {
    if (!parts.empty()) tokens_.need_sign(",");
    if (at_end()) break;
    parts.push_back(conditions ? expression() : without_condition());
    if (!tokens_.is_sign(",")) break;
    many = true;
  }
  if (!many && !parts.empty()) return std::move(parts[0]);
  if (!many && !in_parentheses) tokens_.fail_here("an expression");
  return make(Op::tuple, line, std::move(parts));
}

ExprPtr ExprParser::target(bool spaces, std::string_view end) {
  const int line = tokens_.line();
  Exprs parts;
  bool many = false;
  for (;;) {
    if (!parts.empty()) tokens_.need_sign(",");
    if (tokens_.is(Type::block_end) || (!end.empty() && tokens_.is_name(end))) break;
    parts.push_back(primary(spaces));
    if (!tokens_.is_sign(",")) break;
    many = true;
  }
  if (parts.empty()) tokens_.fail_here("a name to assign to");
  ExprPtr node = many ? make(Op::tuple, line, std::move(parts)) : std::move(parts[0]);
  const auto check = [&](const auto& self, const Expr& part) -> void {
    if (part.op == Op::tuple)
      for (const ExprPtr& inner : part.parts) self(self, *inner);
    else if (part.op != Op::name && part.op != Op::space_ref)
      fail_at(line, "can only assign to names");
  };
  check(check, *node);
  return node;
}

ExprPtr ExprParser::list() {
  const int line = tokens_.line();
  tokens_.need_sign("[");
  Exprs parts;
  while (!tokens_.is_sign("]")) {
    if (!parts.empty()) tokens_.need_sign(",");
    if (tokens_.is_sign("]")) break;
    parts.push_back(expression());
  }
  tokens_.need_sign("]");
  return make(Op::list, line, std::move(parts));
}

ExprPtr ExprParser::dict() {
  const int line = tokens_.line();
  tokens_.need_sign("{");
  Exprs parts;
  while (!tokens_.is_sign("}")) {
    if (!parts.empty()) tokens_.need_sign(",");
    if (tokens_.is_sign("}")) break;
    parts.push_back(expression());
    tokens_.need_sign(":");
    parts.push_back(expression());
  }
  tokens_.need_sign("}");
  return make(Op::dict, line, std::move(parts));
}

}  // namespace hone::jinja
