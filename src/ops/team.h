// Threads that go through many short steps together, in one parallel region.
#pragma once

#include <ATen/Parallel.h>
#include <omp.h>

#include <cstdint>

#include "base/waiting.h"

namespace hone::ops {

// One thread of a team.
struct Member {
  int number, size;
  Barrier& barrier;

  void wait() const {
    if (size > 1) barrier.wait(size);
  }
  // Its share [begin, end) of `units`.
  std::int64_t begin(std::int64_t units) const { return units * number / size; }
  std::int64_t end(std::int64_t units) const { return units * (number + 1) / size; }
};

inline int team_size() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

// Runs work(member) on each of team_size() threads, fewer if there are no more. The work must not throw.
template <class Work>
void run_team(Work&& work) {
  Barrier barrier;
  const int size = team_size();
  if (size == 1) return work(Member{0, 1, barrier});
#pragma omp parallel num_threads(size)
  work(Member{omp_get_thread_num(), omp_get_num_threads(), barrier});
}

}  // namespace hone::ops
