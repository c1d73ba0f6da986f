// Starts the ranks of one machine, and ends them all when one is lost.
#pragma once

#include <string>
#include <vector>

namespace hone::dist {

struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> command;  // a program and its arguments
  int threads = 0;                   // OMP_NUM_THREADS of each; 0: what the environment says, else a fair share
  double limit_seconds = 0;          // after so long a silence a rank is lost; 0: HONE_RANK_TIMEOUT, else 60
  double grace_seconds = 5;          // for the others to end by themselves when one is lost, and then to save
};

// Waits for all. Signals are passed on. The exit code: 0, 75 where they stopped and can go on, that of the first rank
// that failed, or 7 where one was killed; which one is said on stderr. Throws Error(usage, peer).
int launch(const LaunchOptions& options);

}  // namespace hone::dist
