// SIGINT and SIGTERM ask the run to stop, SIGUSR1 to save; handlers only set flags that the loop looks at.
#pragma once

#include <string>

namespace hone {

// Installs the handlers while alive, and ignores SIGPIPE; the old ones come back afterwards. One per process at a time.
// The first SIGINT or SIGTERM requests a stop, the second ends the process at once with 128 + its number.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Any thread may call these.
  static bool stop_requested() noexcept;
  static int stop_number() noexcept;         // SIGINT or SIGTERM; 0: none yet
  static std::string stop_name();            // "SIGTERM", or "" when there was none
  static bool take_save_request() noexcept;  // true once per SIGUSR1 (or several in between)
  // A descriptor that becomes readable when any of them arrives, for poll(); do not read from it. -1: none installed.
  static int wake_fd() noexcept;
  static void reset() noexcept;  // forgets what came; for tests and for a second run in one process
};

// SIGPIPE ignored from now on: a closed pipe is then an error of write(). For commands without a StopSignal.
void ignore_sigpipe() noexcept;

// Blocks SIGINT, SIGTERM and SIGUSR1 in the calling thread while alive; threads started meanwhile inherit that.
class BlockSignals {
 public:
  BlockSignals();
  ~BlockSignals();
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  alignas(16) unsigned char old_[128];  // a sigset_t
};

}  // namespace hone
