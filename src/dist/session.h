// This process's part in a job of several.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "hone/world.h"

namespace hone::dist {

// One for a process, from its start to its end.
class Session {
 public:
  // Nothing: the process is alone, as no launcher says otherwise. Waits for all ranks; from then on a watchdog ends the
  // process when one is lost. Threads are shared among the ranks of a machine. Throws Error(config, peer).
  static std::unique_ptr<Session> join();
  ~Session();  // leaves
  // This rank is done, and waits a little for the others to be so as well. Once.
  void leave();
  // Whether ranks have met on devices, or again after one had failed. What connects those is not taken down: libraries
  // do so together, or wait for who is gone. Who has left then ends the process at once.
  bool leaves_threads() const;

  World world() const { return world_; }
  // Rank 0 says in the log who it is with; of the others nothing below an error is logged from then on.
  void announce() const;
  // What this rank says of the error that it ends with; nothing: rank 0 says the same. The others end with `code`, too.
  std::optional<std::string> own_words(const std::string& error, int code);

 private:
  struct State;
  Session();
  std::unique_ptr<State> state_;
  World world_;
};

}  // namespace hone::dist
