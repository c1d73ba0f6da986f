// What one rendering may use: loop steps, evaluation steps, bytes, output, processor time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hone::jinja {

struct Limits {
  std::int64_t loop_steps = 1'000'000;  // rounds of all loops together
  std::int64_t steps = 50'000'000;      // expressions, statements and elements touched
  std::int64_t bytes = 400'000'000;     // made in all: texts and lists, also those that are gone again
  std::size_t text = 64'000'000;        // the longest single text
  std::size_t output = 16'000'000;
  double seconds = 2;  // of this thread's processor time
  int calls = 200;     // macros and recursive loops inside each other
};
inline constexpr int kMaxDepth = 200;     // of values inside values, and of expressions inside expressions
inline constexpr int kMaxNesting = 1200;  // of the evaluator's own calls

// The budget of the rendering that this thread is at. Found through a thread-local pointer, because values are made in
// places that know nothing of the interpreter. Outside a rendering everything is free.
class Budget {
 public:
  explicit Budget(const Limits& limits);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Each throws a Fault when the budget does not cover it.
  static void take_steps(std::int64_t count) {
    if (current_ && (current_->steps_ += count) >= current_->next_look_) current_->look();
  }
  static void take_bytes(std::size_t count);
  static void take_loop_step();
  static void check_text(std::size_t bytes);  // before a text of that size is made

 private:
  void look();
  static thread_local Budget* current_;
  Budget* const outer_;
  const Limits limits_;
  std::int64_t steps_ = 0, next_look_ = 0, bytes_ = 0, loop_steps_ = 0;
  double start_;
};

}  // namespace hone::jinja
