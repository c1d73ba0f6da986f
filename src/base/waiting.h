// Waiting for other threads of the same work: a short spin, then sleep.
#pragma once

#include <atomic>
#include <cstdint>

namespace hone {

// A number that some threads set and others wait for. Who waits spins for some tens of microseconds at most: that is
// what a peer needs that runs, while one that does not run may need this very processor. Where spinning has been in
// vain lately, only a few turns of it are tried.
class alignas(64) Watched {
 public:
  std::uint32_t get() const { return value_.load(std::memory_order_acquire); }

  void set(std::uint32_t value) {
    // In one order with sleepers_: a thread that goes to sleep is either seen here, or sees the new value.
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) value_.notify_all();
  }

  // Returns when done(value) holds.
  template <class Done>
  void wait_until(Done done) {
    if (spin(done)) return;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    for (std::uint32_t seen; !done(seen = value_.load(std::memory_order_seq_cst));) value_.wait(seen);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  static constexpr int kSpins = 2048, kFewSpins = 8;  // a turn takes 10 to 60 ns
  static constexpr unsigned kInVain = 4, kTryAgain = 64;
  struct Patience {
    unsigned in_vain = 0, waits = 0;
  };

  template <class Done>
  bool spin(Done& done) {
    static thread_local Patience patience;
    const bool few = patience.in_vain >= kInVain && ++patience.waits % kTryAgain != 0;
    for (int turn = few ? kFewSpins : kSpins; turn > 0; --turn) {
      if (done(get())) {
        patience.in_vain = 0;
        return true;
      }
      relax();
    }
    ++patience.in_vain;
    return false;
  }
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::atomic<std::uint32_t> value_{0};
  std::atomic<int> sleepers_{0};
};

// A meeting point.
class Barrier {
 public:
  // Returns when all `members` have called it.
  void wait(int members) {
    const std::uint32_t turn = turn_.get();
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.set(turn + 1);
      return;
    }
    turn_.wait_until([&](std::uint32_t now) { return now != turn; });
  }

 private:
  std::atomic<int> arrived_{0};
  Watched turn_;
};

}  // namespace hone
