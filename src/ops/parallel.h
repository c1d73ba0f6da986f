// How work is split over threads.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace hone::ops {

// Rows per task when a row has `cols` elements of light work: about 16 k elements, what a thread does in a few
// microseconds.
inline std::int64_t grain(std::int64_t cols) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, cols));
}

// run(begin, end) for all of [0, count) in chunks that threads take when they are free: for work of a few microseconds,
// where one thread may still be waking up. REQUIRES: a result does not depend on where the chunks lie.
template <class Run>
void share(std::int64_t count, std::int64_t chunk, Run&& run) {
  const std::int64_t chunks = (count + chunk - 1) / chunk;
  std::atomic<std::int64_t> next{0};
  at::parallel_for(0, std::min<std::int64_t>(chunks, at::get_num_threads()), 1, [&](std::int64_t, std::int64_t) {
    for (std::int64_t c; (c = next.fetch_add(1, std::memory_order_relaxed)) < chunks;)
      run(c * chunk, std::min(count, (c + 1) * chunk));
  });
}

}  // namespace hone::ops
