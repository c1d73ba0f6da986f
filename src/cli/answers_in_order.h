// Answers that finish in any order, printed in the order of their prompts.
#pragma once

#include <cstddef>
#include <functional>
#include <map>

#include "hone/generate.h"

namespace hone::cli {

class AnswersInOrder {
 public:
  explicit AnswersInOrder(std::function<void(std::size_t, const Generated&)> print) : print_(std::move(print)) {}
  // Prints it, and what has waited for it, once all before it are printed.
  void add(std::size_t prompt, const Generated& answer);
  void print_rest();  // those that wait for one that will not come

 private:
  void print_first();
  std::function<void(std::size_t, const Generated&)> print_;
  std::map<std::size_t, Generated> waiting_;
  std::size_t next_ = 0;
};

}  // namespace hone::cli
