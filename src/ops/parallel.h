// How finely work is split over threads.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/sections.h"
#include "ops/team.h"

namespace hone::ops {

// Rows per task when a row has `cols` elements of light work: about 16 k elements, what a thread does in a few
// microseconds.
inline std::int64_t grain(std::int64_t cols) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, cols));
}

// How long threads waited for the last one, while somebody counts that (base/sections.h).
class SharedWork {
 public:
  explicit SharedWork(int threads)
      : threads_(sections::running() ? threads : 0), begin_(threads_ > 0 ? monotonic_seconds() : 0) {}
  ~SharedWork() {
    if (threads_ > 1) sections::add_waited(monotonic_seconds() - begin_ - worked_.load() * 1e-9 / threads_);
  }
  SharedWork(const SharedWork&) = delete;
  void done() {  // by each thread, at its end
    if (threads_ > 1) worked_ += static_cast<std::int64_t>((monotonic_seconds() - begin_) * 1e9);
  }

 private:
  const int threads_;
  const double begin_;
  std::atomic<std::int64_t> worked_{0};  // nanoseconds, of all threads
};

// Work on `units` units that do not depend on one another or on who works on them: a thread takes the next one when it
// is done, so that none waits for a slower one. Each calls begin() once, for room of its own, and what it gives for its
// units.
template <class Begin>
void share_out_with(std::int64_t units, Begin&& begin) {
  if (units == 0) return;
  std::atomic<std::int64_t> next{0};
  SharedWork shared(team_size());
  at::parallel_for(0, std::min<std::int64_t>(team_size(), units), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t worker = first; worker < last; ++worker) {
      auto&& work = begin();
      for (std::int64_t unit; (unit = next.fetch_add(1)) < units;) work(unit);
    }
    shared.done();
  });
}

// Runs work(unit) for each of them.
template <class Work>
void share_out(std::int64_t units, Work&& work) {
  share_out_with(units, [&]() -> Work& { return work; });
}

}  // namespace hone::ops
