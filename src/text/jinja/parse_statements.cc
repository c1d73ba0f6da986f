// Statements: what stands in {% %}, up to the tag that ends each.
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "text/jinja/budget.h"
#include "text/jinja/fault.h"
#include "text/jinja/parser.h"

namespace hone::jinja {
namespace {

using Op = Expr::Op;
using Type = Token::Type;
using What = Stmt::What;
using StmtPtr = std::unique_ptr<Stmt>;
using Ends = std::initializer_list<std::string_view>;

class StmtParser {
 public:
  StmtParser(std::string_view source, Spacing spacing) : tokens_(tokens_of(source, spacing)), exprs_(tokens_) {}

  Program program() {
    Program made;
    made.body = statements({});
    made.tracks_generation = tracks_generation_;
    return made;
  }

 private:
  static StmtPtr make(What what, int line) {
    auto made = std::make_unique<Stmt>();
    made->what = what;
    made->line = line;
    return made;
  }

  // Up to a tag that is one of `ends`, whose name is the current token then; or to the end of the template.
  Stmts statements(Ends ends) {
    if (++depth_ > kMaxDepth) fail_at(tokens_.line(), fmt::format("blocks nested deeper than {}", kMaxDepth));
    Stmts body;
    const auto output = [&]() -> Stmt& {
      if (body.empty() || body.back()->what != What::output) body.push_back(make(What::output, tokens_.line()));
      return *body.back();
    };
    for (;;) {
      if (tokens_.is(Type::end)) break;
      if (tokens_.is(Type::data)) {
        const Token data = tokens_.take();
        auto text = std::make_unique<Expr>();
        text->op = Op::data;
        text->line = data.line;
        text->constant = Value::string(data.text);
        output().exprs.push_back(std::move(text));
      } else if (tokens_.is(Type::variable_begin)) {
        tokens_.take();
        output().exprs.push_back(exprs_.tuple());
        tokens_.need(Type::variable_end);
      } else {
        tokens_.need(Type::block_begin);
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return tokens_.is_name(end); })) break;
        body.push_back(statement());
        tokens_.need(Type::block_end);
      }
    }
    --depth_;
    return body;
  }

  // The rest of the opening tag, then the body; the name of the ending tag is taken.
  Stmts block(Ends ends, std::string& end) {
    const int line = tokens_.line();
    tokens_.take_sign(":");
    tokens_.need(Type::block_end);
    Stmts body = statements(ends);
    if (tokens_.is(Type::end))
      fail_at(line, fmt::format("a block without its end; expected {{% {} %}}", *std::prev(ends.end())));
    end = tokens_.take().text;
    return body;
  }
  Stmts block(std::string_view end) {
    std::string ignored;
    return block({end}, ignored);
  }

  StmtPtr statement() {
    const int line = tokens_.line();
    if (!tokens_.is(Type::name)) tokens_.fail_here("the name of a tag");
    const std::string tag = tokens_.take().text;
    if (tag == "if") return branch(line);
    if (tag == "for") return loop(line);
    if (tag == "set") return set(line);
    if (tag == "macro") return macro(line);
    if (tag == "call") return call_block(line);
    if (tag == "filter") return filter_block(line);
    if (tag == "with") return with(line);
    if (tag == "print") return print(line);
    if (tag == "generation") return generation(line);
    if (tag == "break") return make(What::break_loop, line);
    if (tag == "continue") return make(What::continue_loop, line);
    for (const char* other : {"block", "extends", "include", "import", "from", "autoescape"})
      if (tag == other) fail_at(line, fmt::format("the tag '{}' is not supported: a chat template is one file", tag));
    fail_at(line, fmt::format("unknown tag {}", hone::quoted(tag)));
  }

  StmtPtr branch(int line) {
    StmtPtr made = make(What::branch, line);
    for (std::string end = "elif"; end == "elif";) {
      Stmt::Branch one;
      one.test = exprs_.tuple(false);
      one.body = block({"elif", "else", "endif"}, end);
      made->branches.push_back(std::move(one));
      if (end == "else") made->otherwise = block("endif");
    }
    return made;
  }

  StmtPtr loop(int line) {
    StmtPtr made = make(What::loop, line);
    made->target = exprs_.target(false, "in");
    tokens_.need_name("in");
    made->value = exprs_.tuple(false, "recursive");
    if (tokens_.take_name("if")) made->test = exprs_.expression();
    made->recursive = tokens_.take_name("recursive");
    std::string end;
    made->body = block({"else", "endfor"}, end);
    if (end == "else") made->otherwise = block("endfor");
    return made;
  }

  StmtPtr set(int line) {
    StmtPtr made = make(What::set, line);
    made->target = exprs_.target(true);
    if (tokens_.take_sign("=")) {
      made->value = exprs_.tuple();
      return made;
    }
    made->what = What::set_block;
    made->value = exprs_.filters(nullptr);
    made->body = block("endset");
    return made;
  }

  // (name, name=default, ...)
  void signature(Function& function) {
    tokens_.need_sign("(");
    while (!tokens_.is_sign(")")) {
      if (!function.parameters.empty()) tokens_.need_sign(",");
      const int line = tokens_.line();
      function.parameters.push_back(tokens_.need_name());
      const std::string& name = function.parameters.back();
      if (std::count(function.parameters.begin(), function.parameters.end(), name) > 1)
        fail_at(line, fmt::format("two parameters are named {}", hone::quoted(name)));
      if (tokens_.take_sign("="))
        function.defaults.push_back(exprs_.expression());
      else if (!function.defaults.empty())
        fail_at(line, "a parameter without default follows one with a default");
    }
    tokens_.need_sign(")");
  }

  StmtPtr macro(int line) {
    StmtPtr made = make(What::macro, line);
    made->function = std::make_unique<Function>();
    made->function->name = tokens_.need_name();
    signature(*made->function);
    made->body = block("endmacro");
    return made;
  }

  StmtPtr call_block(int line) {
    StmtPtr made = make(What::call_block, line);
    made->function = std::make_unique<Function>();
    if (tokens_.is_sign("(")) signature(*made->function);
    made->value = exprs_.expression();
    if (made->value->op != Op::call) fail_at(line, "expected a call");
    made->body = block("endcall");
    return made;
  }

  StmtPtr filter_block(int line) {
    StmtPtr made = make(What::filter_block, line);
    made->value = exprs_.filters(nullptr, true);
    made->body = block("endfilter");
    return made;
  }

  StmtPtr with(int line) {
    StmtPtr made = make(What::with, line);
    while (!tokens_.is(Type::block_end)) {
      if (!made->targets.empty()) tokens_.need_sign(",");
      made->targets.push_back(single_target());
      tokens_.need_sign("=");
      made->exprs.push_back(exprs_.expression());
    }
    made->body = block("endwith");
    return made;
  }
  ExprPtr single_target() {
    auto made = std::make_unique<Expr>();
    made->op = Op::name;
    made->line = tokens_.line();
    made->name = tokens_.need_name();
    return made;
  }

  StmtPtr print(int line) {
    StmtPtr made = make(What::output, line);
    while (!tokens_.is(Type::block_end)) {
      if (!made->exprs.empty()) tokens_.need_sign(",");
      made->exprs.push_back(exprs_.expression());
    }
    return made;
  }

  StmtPtr generation(int line) {
    tracks_generation_ = true;
    StmtPtr made = make(What::generation, line);
    made->function = std::make_unique<Function>();
    made->body = block("endgeneration");
    return made;
  }

  TokenReader tokens_;
  ExprParser exprs_;
  int depth_ = 0;
  bool tracks_generation_ = false;
};

}  // namespace

Program parse(std::string_view source, Spacing spacing) { return StmtParser(source, spacing).program(); }

}  // namespace hone::jinja
