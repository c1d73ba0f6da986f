// SIGINT, SIGTERM and SIGHUP ask the run to stop, SIGUSR1 to save; handlers only set flags that the loop looks at.
#pragma once

#include <string>
#include <string_view>

#include "hone/error.h"

namespace hone {

// Nobody's mistake: a signal came in the middle of work that could not be kept. Its number is the exit code.
inline constexpr ErrorKind kStopped{75};

// Installs the handlers while alive, and ignores SIGPIPE and SIGXFSZ; the old ones come back afterwards. One per
// process at a time. The first SIGINT or SIGTERM requests a stop, the second ends the process at once with 128 + its
// number; those that sigqueue() sends say with their value which one it is. SIGHUP requests a stop and never more than
// that: a terminal that closes sends it several times, and the system another signal after it. It stays ignored where
// it was (nohup).
class StopSignal {
 public:
  // notice: a line for stderr when the first one comes, as what is stopped may take its time; "" = none.
  explicit StopSignal(std::string_view notice = "");  // Error(usage): there is one
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Any thread may call these.
  static bool stop_requested() noexcept;
  static void check(const std::string& doing);  // if so, while one is alive: Error(kStopped)
  static int stop_number() noexcept;            // SIGINT, SIGTERM or SIGHUP; 0: none yet
  static std::string stop_name();               // "SIGTERM", or "" when there was none
  static bool take_save_request() noexcept;     // true once per SIGUSR1 (or several in between)
  // A descriptor that becomes readable when any of them arrives, for poll(); do not read from it. -1: none installed.
  static int wake_fd() noexcept;
  static void reset() noexcept;  // forgets what came; for tests and for a second run in one process
};

// From now on SIGINT, SIGTERM and SIGHUP end the process at once, with a line that says so and exit code kStopped: for
// work that loses nothing by it. A StopSignal takes their place while it is alive. They stay ignored where they were.
// json: the form of the line. clear_line: a line of progress on the terminal goes first. May be called before static
// constructors have run.
void end_at_stop_signals(bool json, bool clear_line) noexcept;
// By the signal itself again, as the system does it.
void die_of_stop_signals() noexcept;

// From now on SIGUSR1, which asks a run to save, ends nobody who has nothing to save: it is passed over until there is
// a StopSignal, and after it. It stays ignored where it was; programs that are started hear it as the system has it.
// May be called before static constructors have run.
void pass_over_save_signals() noexcept;

// From now on a closed pipe or a file beyond the limit (ulimit -f) is an error of write(), not the end of the process.
// For commands without a StopSignal.
void ignore_write_signals() noexcept;

// Blocks SIGINT, SIGTERM, SIGHUP and SIGUSR1 in the calling thread while alive; threads started meanwhile inherit that.
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
