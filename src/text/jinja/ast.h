// A parsed template: expressions and statements, with every name resolved to a slot (by scope.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/value.h"

namespace hone::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
using Exprs = std::vector<ExprPtr>;

// A variable: the slot of an activation that many functions further out. slot -1: none.
struct Ref {
  int hops = 0, slot = -1;
};

struct Arguments {
  Exprs positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr rest, named_rest;  // *rest, **named_rest
};

enum class Sign : std::uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

struct Expr {
  enum class Op : std::uint8_t {
    constant,
    data,  // text between tags
    name,
    space_ref,  // target of `set ns.name = ...`: name, attribute
    tuple,
    list,
    dict,  // parts: key, value, key, value, ...
    add,
    subtract,
    multiply,
    divide,
    floor_divide,
    modulo,
    power,
    negate,
    plus,
    invert,  // not
    both,    // and
    either,  // or
    concat,  // ~
    compare,
    attribute,  // parts[0].attribute
    item,       // parts[0][parts[1]]
    slice,      // parts: start, stop, step, each may be null
    call,
    filter,  // parts[0] may be null: what the block wrote
    test,
    condition  // parts: test, then, else (may be null)
  };
  Op op;
  int line = 0;
  int depth = 1;  // of expressions inside it, this one counted
  Value constant;
  std::string name;  // of a name, filter or test; of the space
  std::string attribute;
  Exprs parts;
  std::vector<Sign> signs;  // of a comparison, between its parts
  std::unique_ptr<Arguments> arguments;
  Ref ref;
};

struct Stmt;
using Stmts = std::vector<std::unique_ptr<Stmt>>;

// What a scope sets when it is entered: a variable of the template's caller, a copy of an outer one, or nothing yet.
struct Load {
  enum class From : std::uint8_t { input, outer, nowhere } from;
  int slot;
  std::string name;
  Ref outer;
};
struct Scope {
  std::vector<Load> loads;
};

// A macro, a call block's body, or the body of a recursive loop: what has slots of its own.
struct Function {
  std::string name;
  std::vector<std::string> parameters;
  Exprs defaults;                              // of the last parameters
  std::vector<int> slots;                      // of the parameters
  int caller = -1, kwargs = -1, varargs = -1;  // slots of what the body reads without declaring it
  int slot_count = 0;
  Scope scope;
};

struct Stmt {
  enum class What : std::uint8_t {
    output,
    branch,  // if
    loop,    // for
    set,
    set_block,
    macro,
    call_block,
    filter_block,
    with,
    generation,
    break_loop,
    continue_loop
  };
  struct Branch {
    ExprPtr test;
    Stmts body;
  };
  What what;
  int line = 0;
  Exprs exprs;  // output: what is printed; with: the values
  std::vector<Branch> branches;
  Stmts body, otherwise;      // otherwise: else of `if` and `for`
  ExprPtr target, value;      // for: target in value; set; call block: value is the call; filters: value
  ExprPtr test, test_target;  // for ... if; the target once more, in the test's own scope
  Exprs targets;              // with
  bool recursive = false;
  Ref loop;   // the slot of `loop`, if the body reads it
  Ref named;  // macro: where it is stored
  Scope scope, test_scope, else_scope;
  std::unique_ptr<Function> function;
};

struct Program {
  Stmts body;
  Function root;
  bool tracks_generation = false;
};

// Both throw a Fault with its line.
Program parse(std::string_view source, Spacing spacing);
void resolve_names(Program& program);

}  // namespace hone::jinja
