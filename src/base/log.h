// Log lines with a level, to stderr or to a sink of the caller's; also owns the status line at the bottom of a
// terminal.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace hone::log {

// Thread-safe and never throwing: a log that cannot be written (closed pipe, full disk) is lost, the run goes on.
enum class Level { debug, info, warning, error, silent };

using Sink = std::function<void(Level level, std::string_view message)>;

void set_level(Level lowest);  // messages below it are dropped; default info
Level level() noexcept;
// json: each message is one line, {"level": "warning", "message": "..."}, and there is no status line.
enum class Form { text, json };
void set_form(Form form);
Form form() noexcept;
std::string line(Level level, std::string_view message);  // as it is written, with its line end
void set_sink(Sink sink);          // where messages go instead of stderr; {} restores stderr
std::int64_t warnings() noexcept;  // warnings and errors since the start, shown or not

void write(Level level, std::string_view message) noexcept;
void vwrite(Level level, fmt::string_view format, fmt::format_args args) noexcept;

// The last line of a terminal that obeys escapes, kept below all messages; "" removes it. Used by Progress only.
void set_status(std::string_view line) noexcept;

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) noexcept {
  vwrite(Level::debug, format, fmt::make_format_args(args...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) noexcept {
  vwrite(Level::info, format, fmt::make_format_args(args...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) noexcept {
  vwrite(Level::warning, format, fmt::make_format_args(args...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) noexcept {
  vwrite(Level::error, format, fmt::make_format_args(args...));
}

// Lets one message through per interval and counts the others: for a failure that may repeat thousands of times.
class Limiter {
 public:
  explicit Limiter(double seconds = 60) : seconds_(seconds) {}
  // Logs a warning, or counts it; the next one shown says how many were left out. One thread at a time.
  void warning(std::string_view message);

 private:
  double seconds_, last_ = 0;
  std::int64_t left_out_ = 0;
  bool any_ = false;
};

}  // namespace hone::log
