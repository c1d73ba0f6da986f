// Recursive descent over tokens, at most kMaxDepth deep.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace hone::jinja {

// The tokens, and what both parsers need of them.
class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  const Token& now() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  int line() const { return now().line; }

  bool is(Token::Type type) const { return now().type == type; }
  bool is_sign(std::string_view text) const { return now().type == Token::Type::sign && now().text == text; }
  bool is_name(std::string_view text) const { return now().type == Token::Type::name && now().text == text; }
  bool take_sign(std::string_view text);
  bool take_name(std::string_view text);
  void need_sign(std::string_view text);
  void need_name(std::string_view text);
  std::string need_name();
  void need(Token::Type type);
  [[noreturn]] void fail_here(const std::string& expected) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};
std::string describe(const Token& token);

class ExprParser {
 public:
  explicit ExprParser(TokenReader& tokens) : tokens_(tokens) {}
  ExprPtr expression();
  ExprPtr without_condition() { return either(); }  // as in `for x in HERE if test`
  // One expression, or several with commas between them as a tuple. ends: names that end it, besides the tag's end.
  ExprPtr tuple(bool conditions = true, std::string_view end = "", bool in_parentheses = false);
  // What can be assigned to: a name, a tuple of such, and with `spaces` also ns.name.
  ExprPtr target(bool spaces, std::string_view end = "");
  ExprPtr filters(ExprPtr input, bool first_is_here = false);  // "| name(...)" repeated
  std::unique_ptr<Arguments> arguments();
  // A guard of the depth of what is being parsed.
  class Deeper;

 private:
  template <class Next>
  ExprPtr binary(std::initializer_list<std::pair<std::string_view, Expr::Op>> signs, Next&& next);
  ExprPtr condition();
  ExprPtr either();
  ExprPtr both();
  ExprPtr invert();
  ExprPtr compare();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filters);
  ExprPtr primary(bool spaces = false);
  ExprPtr name_or_constant(bool spaces);
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr node);
  ExprPtr filters_and_tests(ExprPtr node);
  ExprPtr subscript(ExprPtr node);
  ExprPtr subscribed();
  ExprPtr test(ExprPtr node);
  ExprPtr call(ExprPtr node);
  ExprPtr make(Expr::Op op, int line, Exprs parts = {}) const;

  TokenReader& tokens_;
  int depth_ = 0;
};

}  // namespace hone::jinja
