// What is asked for at the edge of a step: by callbacks, by signals, by the clock.
#pragma once

#include <string>
#include <vector>

#include "hone/world.h"

namespace hone::training {

struct Wishes {
  bool evaluate = false, save = false;
  std::string stop;    // the callback that asked for it
  std::string signal;  // "SIGTERM": to stop, and to be continued
  void add(const Wishes& more);  // but for busy
  std::vector<double> busy;  // no wish: seconds of the step in which a rank did not wait, of each that says so
};

// What all ranks do then: whatever any of them asks for. The same on each of them.
Wishes agreed(const World& world, const Wishes& own);

}  // namespace hone::training
