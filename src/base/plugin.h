// What a plug-in throws, with what it was asked for.
#pragma once

#include <string>

namespace hone {

// For handlers: throws what is being handled once more, with `who` in it. An Error keeps its kind; a lack of memory
// stays what it is; all else, std::exception or not, becomes an Error(bug).
[[noreturn]] void rethrow_from(const std::string& who);

// Runs work of a plug-in; who(): "callback mine, on_step_end, step 3".
template <class Who, class Work>
decltype(auto) in_plugin(const Who& who, Work&& work) {
  try {
    return work();
  } catch (...) {
    rethrow_from(who());
  }
}

// The same where a failure costs nothing but a warning.
void warn_of_failure(const std::string& who) noexcept;  // for handlers
template <class Who, class Work>
void warned_of_plugin(const Who& who, Work&& work) noexcept {
  try {
    work();
  } catch (...) {
    warn_of_failure(who());
  }
}

}  // namespace hone
