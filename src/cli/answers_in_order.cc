// Answers wait for those before them.
#include "cli/answers_in_order.h"

namespace hone::cli {

void AnswersInOrder::add(std::size_t prompt, const Generated& answer) {
  waiting_.emplace(prompt, answer);
  for (; !waiting_.empty() && waiting_.begin()->first == next_; ++next_) print_first();
}

void AnswersInOrder::print_rest() {
  while (!waiting_.empty()) print_first();
}

void AnswersInOrder::print_first() {
  const auto first = waiting_.extract(waiting_.begin());
  print_(first.key(), first.mapped());
}

}  // namespace hone::cli
