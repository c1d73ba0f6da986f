// A name that a scope only reads is looked up outside; one that it sets anywhere is its own from the start, with the
// outer value as its first one.
#include "text/jinja/symbols.h"

#include <algorithm>

namespace hone::jinja {

using Op = Expr::Op;
using What = Stmt::What;

Ref ref_from(const Frame& frame, const Variable& variable) {
  Ref ref{0, variable.slot};
  for (const Frame* at = &frame; at != variable.frame; at = at->outer) ++ref.hops;
  return ref;
}

std::optional<Variable> Symbols::find(const std::string& name) const {
  for (const Symbols* at = this; at; at = at->outer_)
    if (const auto it = at->names_.find(name); it != at->names_.end()) return it->second;
  return std::nullopt;
}

void Symbols::set_origin(const Variable& variable, Origin origin) {
  const auto it =
      std::find_if(origins_.begin(), origins_.end(), [&](const auto& entry) { return entry.first == variable; });
  if (it != origins_.end())
    it->second = std::move(origin);
  else
    origins_.emplace_back(variable, std::move(origin));
}

Variable Symbols::define(const std::string& name, Origin origin) {
  const Variable variable{frame_, frame_->slot_of(std::to_string(level_) + mark_, name)};
  names_[name] = variable;
  set_origin(variable, std::move(origin));
  return variable;
}

void Symbols::load(const std::string& name) {
  if (!find(name)) define(name, {Origin::input, name, {}});
}

void Symbols::store(const std::string& name) {
  stores_.insert(name);
  if (names_.count(name)) return;
  const auto outer = outer_ ? outer_->find(name) : std::nullopt;
  define(name, outer ? Origin{Origin::outer, name, *outer} : Origin{Origin::nowhere, name, {}});
}

Variable Symbols::declare(const std::string& name) {
  stores_.insert(name);
  return define(name, {Origin::parameter, name, {}});
}

void Symbols::join(const std::vector<Symbols>& branches) {
  std::set<std::string> fresh;
  for (const Symbols& branch : branches) fresh.insert(branch.stores_.begin(), branch.stores_.end());
  for (const std::string& name : stores_) fresh.erase(name);
  for (const Symbols& branch : branches) {
    for (const auto& [name, variable] : branch.names_) names_[name] = variable;
    for (const auto& [variable, origin] : branch.origins_) set_origin(variable, origin);
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  // Perhaps set, perhaps not: until then it is what it is outside.
  for (const std::string& name : fresh) {
    const auto outer = outer_ ? outer_->find(name) : std::nullopt;
    set_origin(names_.at(name), outer ? Origin{Origin::outer, name, *outer} : Origin{Origin::input, name, {}});
  }
}

Scope Symbols::scope() const {
  Scope made;
  for (const auto& [variable, origin] : origins_) {
    if (origin.from == Origin::parameter) continue;
    Load load{Load::From::nowhere, variable.slot, origin.name, {}};
    if (origin.from == Origin::input) load.from = Load::From::input;
    if (origin.from == Origin::outer) load.from = Load::From::outer, load.outer = ref_from(*frame_, origin.variable);
    made.loads.push_back(std::move(load));
  }
  return made;
}

void visit(Symbols& symbols, const Expr* expr) {
  if (!expr) return;
  if (expr->op == Op::name || expr->op == Op::space_ref) symbols.load(expr->name);
  each_part(*expr, [&](const Expr& part) { visit(symbols, &part); });
}

namespace {

void visit_target(Symbols& symbols, const Expr& target) {
  if (target.op == Op::name) symbols.store(target.name);
  if (target.op == Op::space_ref) symbols.load(target.name);
  for (const ExprPtr& part : target.parts) visit_target(symbols, *part);
}

// An elif is an `if` of its own in the branch that the first test leads to.
void visit_branch(Symbols& symbols, const Stmt& stmt) {
  visit(symbols, stmt.branches[0].test.get());
  std::vector<Symbols> copies(3, symbols);
  visit(copies[0], stmt.branches[0].body);
  for (std::size_t i = 1; i < stmt.branches.size(); ++i) {
    visit(copies[1], stmt.branches[i].test.get());
    std::vector<Symbols> inner(1, copies[1]);
    visit(inner[0], stmt.branches[i].body);
    copies[1].join(inner);
  }
  visit(copies[2], stmt.otherwise);
  symbols.join(copies);
}

}  // namespace

void visit(Symbols& symbols, const Stmts& stmts) {
  for (const auto& stmt : stmts) visit(symbols, *stmt);
}

void visit(Symbols& symbols, const Stmt& stmt) {
  switch (stmt.what) {
    case What::output:
    case What::with:
      for (const ExprPtr& expr : stmt.exprs) visit(symbols, expr.get());
      return;
    case What::branch:
      return visit_branch(symbols, stmt);
    case What::set:
      visit(symbols, stmt.value.get());
      return visit_target(symbols, *stmt.target);
    case What::set_block:
      return visit_target(symbols, *stmt.target);
    case What::loop:
    case What::call_block:
    case What::filter_block:
      return visit(symbols, stmt.value.get());
    case What::macro:
      return symbols.store(stmt.function->name);
    case What::generation:
    case What::break_loop:
    case What::continue_loop:
      return;
  }
}

namespace {

class Undeclared {
 public:
  explicit Undeclared(std::set<std::string> names) : names_(std::move(names)) {}
  std::set<std::string> take() { return std::move(found_); }

  void read(const Expr* expr) {
    if (!expr) return;
    if (expr->op == Op::name && names_.count(expr->name)) found_.insert(expr->name);
    each_part(*expr, [&](const Expr& part) { read(&part); });
  }
  void set(const Expr* target) {
    if (!target) return;
    if (target->op == Op::name) names_.erase(target->name);
    for (const ExprPtr& part : target->parts) set(part.get());
  }
  void all(const Stmts& stmts) {
    for (const auto& stmt : stmts) one(*stmt);
  }

 private:
  // In the order in which jinja meets the parts of a statement.
  void one(const Stmt& stmt) {
    if (stmt.what == What::filter_block) all(stmt.body);
    if (stmt.what == What::call_block) read(stmt.value.get());
    set(stmt.target.get());
    if (stmt.function) {
      for (const std::string& parameter : stmt.function->parameters) names_.erase(parameter);
      for (const ExprPtr& value : stmt.function->defaults) read(value.get());
    }
    for (const ExprPtr& target : stmt.targets) set(target.get());
    for (const ExprPtr& expr : stmt.exprs) read(expr.get());
    if (stmt.what != What::call_block) read(stmt.value.get());
    for (const Stmt::Branch& branch : stmt.branches) {
      read(branch.test.get());
      all(branch.body);
    }
    if (stmt.what != What::filter_block) all(stmt.body);
    all(stmt.otherwise);
    read(stmt.test.get());
  }

  std::set<std::string> names_, found_;
};

}  // namespace

std::set<std::string> undeclared(const Stmts& stmts, std::set<std::string> names) {
  Undeclared search(std::move(names));
  search.all(stmts);
  return search.take();
}

namespace {

void add_inputs(const Scope& scope, std::set<std::string>& names) {
  for (const Load& load : scope.loads)
    if (load.from == Load::From::input) names.insert(load.name);
}

void add_inputs(const Stmts& stmts, std::set<std::string>& names) {
  for (const auto& stmt : stmts) {
    for (const Scope* scope : {&stmt->scope, &stmt->test_scope, &stmt->else_scope}) add_inputs(*scope, names);
    if (stmt->function) add_inputs(stmt->function->scope, names);
    add_inputs(stmt->body, names), add_inputs(stmt->otherwise, names);
    for (const Stmt::Branch& branch : stmt->branches) add_inputs(branch.body, names);
  }
}

}  // namespace

std::set<std::string> inputs_of(const Program& program) {
  std::set<std::string> names;
  add_inputs(program.root.scope, names);
  add_inputs(program.body, names);
  return names;
}

}  // namespace hone::jinja
