// How finely work is split over threads.
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

// Runs work(unit) for each of `units` units that do not depend on one another or on who works on them: a thread takes
// the next one when it is done, so that none waits for a slower one.
template <class Work>
void share_out(std::int64_t units, Work&& work) {
  std::atomic<std::int64_t> next{0};
  const std::int64_t workers = std::min<std::int64_t>(units, at::in_parallel_region() ? 1 : at::get_num_threads());
  at::parallel_for(0, workers, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t worker = first; worker < last; ++worker)
      for (std::int64_t unit; (unit = next.fetch_add(1)) < units;) work(unit);
  });
}

}  // namespace hone::ops
