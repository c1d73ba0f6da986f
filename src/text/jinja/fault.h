// What goes wrong in a template, on its way to the hone::Error that names the template and the line.
#pragma once

#include <string>
#include <utility>

namespace hone::jinja {

// Thrown everywhere in this folder; the statement at hand fills in the line, Template the name.
struct Fault {
  std::string message;
  int line = 0;           // 0: not known yet
  bool by_type = false;   // Python's TypeError or ValueError: `int` and `float` answer them with a default
  bool by_limit = false;  // the budget is used up
};

[[noreturn]] inline void fail(std::string message) { throw Fault{std::move(message)}; }
[[noreturn]] inline void fail_at(int line, std::string message) { throw Fault{std::move(message), line}; }
[[noreturn]] inline void fail_type(std::string message) { throw Fault{std::move(message), 0, true}; }

}  // namespace hone::jinja
