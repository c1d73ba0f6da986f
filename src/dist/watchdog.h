// Says who is lost, so that nobody waits for a rank that does not come.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "dist/store.h"

namespace hone::dist {

// Keys of the store.
inline constexpr const char* kLostKey = "lost";  // set by the launcher: who, and how it ended
inline constexpr const char* kToldKey = "told";  // set by a rank that ends with an error: its exit code

// A thread that beats in the store while alive, and looks at the beats of the others. Where one has not been heard of
// for the place's limit (at the start: five times as long), the launcher says that one is lost, or the store is gone,
// it says so on stderr and ends the process with exit code 7, wherever the main thread is: what is half written is
// never taken for whole. Where a rank has told its error, it ends the process with that one's exit code.
class Watchdog {
 public:
  // `store`: a connection of its own, as calls wait for each other.
  Watchdog(Store store, const Place& place);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // What the others are told of this rank: "step 41, saving".
  void at(std::string phase);
  // Around each exchange of the main thread. Where one takes longer than the limit although all ranks beat, a warning
  // names those that have not come to it. within: of groups of so many ranks that follow one another, and not of all.
  void begin_exchange(int within = 0);
  void end_exchange();
  // What it asks from now on whether a device waits for other ranks, which the host does not see: that is an exchange
  // that goes on. Null: nobody to ask; when it returns it does not ask any more.
  void watch(std::function<bool()> stands_still);
  // A connection was closed: whoever does not beat any more is found within seconds. Waits for that; returns where
  // all are alive.
  void suspect();
  // This rank ends by itself, with an error or at the end of its work. From now on nobody misses it, and nothing ends
  // it.
  void leave();
  bool all_have_left();  // the others
  void stop();           // at once; who leaves has then left

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone::dist
