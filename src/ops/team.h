// Threads that go through many short steps together, in one parallel region.
#pragma once

#include <ATen/Parallel.h>
#include <omp.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace hone::ops {

// A meeting point. Waiting is spinning, for a step takes microseconds; where threads share a processor, they give way.
class Barrier {
 public:
  // Returns when all `members` have called it.
  void wait(int members) {
    const std::uint32_t turn = turn_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; turn_.load(std::memory_order_acquire) == turn; ++spins)
      if (spins < kSpins)
        relax();
      else
        std::this_thread::yield();
  }

 private:
  static constexpr int kSpins = 1024;
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> turn_{0};
};

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
