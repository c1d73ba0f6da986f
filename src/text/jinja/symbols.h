// Which variable a name means: jinja decides it before anything runs, scope by scope.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"

namespace hone::jinja {

// What has an activation of its own: the template, a macro, a call block's body, a recursive loop.
struct Frame {
  explicit Frame(Frame* outer) : outer(outer) {}
  Frame* const outer;
  // Scopes of one level share the slot of a name, as jinja's do.
  int slot_of(const std::string& level, const std::string& name) {
    return slots.emplace(std::pair(level, name), static_cast<int>(slots.size())).first->second;
  }
  std::map<std::pair<std::string, std::string>, int> slots;
};

struct Variable {
  Frame* frame = nullptr;
  int slot = -1;
  auto operator<=>(const Variable&) const = default;
};
// `variable` as seen from code in `frame`.
Ref ref_from(const Frame& frame, const Variable& variable);

// The names of one scope. A copy is a branch of an `if`, merged again by join().
class Symbols {
 public:
  explicit Symbols(Frame& frame) : frame_(&frame) {}
  // A scope inside `outer`; frame: the outer one's or a new one. mark: keeps its slots apart from others of its level.
  Symbols(const Symbols& outer, Frame& frame, const char* mark = "")
      : outer_(&outer), frame_(&frame), level_(outer.level_ + 1), mark_(mark) {}

  Frame& frame() const { return *frame_; }
  std::optional<Variable> find(const std::string& name) const;
  void load(const std::string& name);
  void store(const std::string& name);
  Variable declare(const std::string& name);  // a parameter: somebody sets it on entry
  void join(const std::vector<Symbols>& branches);
  Scope scope() const;

 private:
  struct Origin {
    enum { parameter, input, outer, nowhere } from;
    std::string name;
    Variable variable;
  };
  Variable define(const std::string& name, Origin origin);
  void set_origin(const Variable& variable, Origin origin);

  const Symbols* outer_ = nullptr;
  Frame* frame_;
  int level_ = 0;
  std::string mark_;
  std::map<std::string, Variable> names_;
  std::vector<std::pair<Variable, Origin>> origins_;
  std::set<std::string> stores_;
};

// Adds what a statement of a scope reads and sets in that scope; what lies in scopes inside it is left out.
void visit(Symbols& symbols, const Stmt& stmt);
void visit(Symbols& symbols, const Expr* expr);  // null: nothing
void visit(Symbols& symbols, const Stmts& stmts);

// Those of `names` that the statements read before they set them, in scopes inside them, too.
std::set<std::string> undeclared(const Stmts& stmts, std::set<std::string> names);
// Those that a program whose names are resolved takes from its caller.
std::set<std::string> inputs_of(const Program& program);

// Calls visit(part) for each direct part of an expression, arguments included.
template <class Visit>
void each_part(const Expr& expr, Visit&& visit) {
  for (const ExprPtr& part : expr.parts)
    if (part) visit(*part);
  if (!expr.arguments) return;
  for (const ExprPtr& part : expr.arguments->positional) visit(*part);
  for (const auto& [name, part] : expr.arguments->named) visit(*part);
  for (const ExprPtr* part : {&expr.arguments->rest, &expr.arguments->named_rest})
    if (*part) visit(**part);
}

}  // namespace hone::jinja
