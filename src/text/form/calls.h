// Answers that call tools, as a language: the calls that find_tool_calls() reads, by the schemas of their arguments.
#pragma once

#include <string>
#include <vector>

#include "text/form/grammar.h"

namespace hone::text {

struct CallForm {
  struct Function {
    std::string name;
    std::string schema;  // of its arguments, JSON of an object's; "": any object
    std::string where;   // what errors of the schema begin with
  };
  // What models think before they answer, behind <think>: the answer has none of it; it may; it goes on with it, as the
  // prompt has begun it.
  enum class Thinking { none, may_come, is_begun };

  std::vector<Function> functions = {};
  bool must_call = true;  // at least one call, and nothing else; else text may stand before calls and between them
  bool several = true;    // calls; else the answer ends behind its first one
  Thinking thinking = Thinking::none;
};

// Error(config): a schema that cannot be held. REQUIRES: there is a function.
Grammar grammar_of_calls(const CallForm& form);

}  // namespace hone::text
