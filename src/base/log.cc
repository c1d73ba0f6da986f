// The log: one lock, one write(2) per message, nothing thrown.
#include "base/log.h"

#include <unistd.h>
#include <csignal>
#include <ctime>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/strings.h"

namespace hone::log {
namespace {

std::atomic<int> lowest{static_cast<int>(Level::info)};
std::atomic<Form> chosen_form{Form::text};
std::atomic<std::int64_t> warning_count{0};

struct LogOutput {
  std::mutex mutex;
  Sink sink;
  std::string status;
};
// Never destroyed: threads may log while static objects go.
LogOutput& output() {
  static LogOutput& made = *new LogOutput;
  return made;
}

// Keeps a closed pipe from killing the process: SIGPIPE is blocked around the write and taken away if it came.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pending;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &old_);
  }
  ~NoSigpipe() {
    const timespec now{0, 0};
    if (!was_pending_) {
      while (sigtimedwait(&pipe_, nullptr, &now) == -1 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }

 private:
  sigset_t pipe_, old_;
  bool was_pending_;
};

void write_stderr(std::string_view text) noexcept {
  const NoSigpipe guard;
  while (!text.empty()) {
    const ssize_t done = ::write(STDERR_FILENO, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

constexpr std::string_view kClearLine = "\r\x1b[K";

std::string_view name_of(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::warning:
      return "warning";
    case Level::error:
      return "error";
    default:
      return "info";
  }
}

void emit(Level level, std::string_view message) {
  LogOutput& out = output();
  const std::lock_guard lock(out.mutex);
  if (out.sink) return out.sink(level, message);
  std::string text;
  if (!out.status.empty()) text += kClearLine;
  write_stderr(text + line(level, message) + out.status);
}

}  // namespace

void set_level(Level level) { lowest = static_cast<int>(level); }
Level level() noexcept { return static_cast<Level>(lowest.load()); }
void set_form(Form form) { chosen_form = form; }
Form form() noexcept { return chosen_form; }
std::int64_t warnings() noexcept { return warning_count; }

std::string line(Level level, std::string_view message) {
  if (form() == Form::json)
    return nlohmann::ordered_json{{"level", name_of(level)}, {"message", message}}.dump(
               -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
           "\n";
  const std::string prefix = level == Level::info ? "" : std::string(name_of(level)) + ": ";
  return prefix + safe_lines(message) + "\n";
}

void set_sink(Sink sink) {
  LogOutput& out = output();
  const std::lock_guard lock(out.mutex);
  out.sink = std::move(sink);
}

void write(Level level, std::string_view message) noexcept {
  if (level == Level::warning || level == Level::error) ++warning_count;
  if (static_cast<int>(level) < lowest.load()) return;
  try {
    emit(level, message);
  } catch (...) {  // a sink that throws, or no memory: logging must not end what is being logged
    write_stderr(message);
    write_stderr("\n");
  }
}

void vwrite(Level level, fmt::string_view format, fmt::format_args args) noexcept {
  const bool shown = static_cast<int>(level) >= lowest.load();
  try {
    write(level, shown || level >= Level::warning ? fmt::vformat(format, args) : std::string());
  } catch (...) {
    write(level, std::string_view(format.data(), format.size()));
  }
}

void set_status(std::string_view line) noexcept {
  try {
    LogOutput& out = output();
    const std::lock_guard lock(out.mutex);
    if ((out.status.empty() && line.empty()) || form() == Form::json) return;
    out.status = line;
    write_stderr(std::string(kClearLine) + out.status);
  } catch (...) {  // no memory for the line: it is not drawn
  }
}

void Limiter::warning(std::string_view message) {
  const double now = monotonic_seconds();
  if (any_ && now - last_ < seconds_) {
    ++left_out_;
    return;
  }
  if (left_out_ > 0)
    log::warning("{} ({} more like it since the last one shown)", message, left_out_);
  else
    log::write(Level::warning, message);
  any_ = true;
  last_ = now;
  left_out_ = 0;
}

}  // namespace hone::log
