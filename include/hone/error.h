// The one exception class of hone: what went wrong, while doing what, and what to try next.
#pragma once

#include <exception>
#include <source_location>
#include <string>
#include <utility>

#define HONE_API __attribute__((visibility("default")))

namespace hone {

// What kind of thing went wrong. The command line turns it into the exit code; nothing else branches on it.
enum class ErrorKind { usage = 2, config = 3, data = 4, checkpoint = 5, not_finite = 6, peer = 7, locked = 8,
                       bug = 70 };

// Message form: "subject: fact; got X, expected Y", lower case, no full stop. Safe to copy between threads.
class HONE_API Error : public std::exception {
 public:
  explicit Error(ErrorKind kind, std::string message,
                 std::source_location where = std::source_location::current())
      : kind_(kind), message_(std::move(message)), text_(message_), where_(where) {}

  // What to try next: one sentence, only when it is very likely right.
  Error&& hint(std::string advice) && {
    hint_ = "\n  hint: " + std::move(advice);
    text_ = message_ + hint_;
    return std::move(*this);
  }
  // What the caller was doing; each level adds one line, the innermost first.
  void add_context(const std::string& doing) {
    message_ += "\n  while " + doing;
    text_ = message_ + hint_;
  }

  ErrorKind kind() const noexcept { return kind_; }
  const char* what() const noexcept override { return text_.c_str(); }
  const std::source_location& where() const noexcept { return where_; }  // printed with --debug only

 private:
  ErrorKind kind_;
  std::string message_, hint_, text_;
  std::source_location where_;
};

// Runs work; if it throws an Error, adds what we were doing and lets it go on.
template <class Work>
decltype(auto) during(const std::string& doing, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (Error& error) {
    error.add_context(doing);
    throw;
  }
}

}  // namespace hone

// A bug of ours, never a user's mistake; stays on in release builds.
#define HONE_ASSERT(condition)                                                                        \
  do {                                                                                                \
    if (!(condition)) throw ::hone::Error(::hone::ErrorKind::bug, "assertion failed: " #condition);   \
  } while (false)
