// The same work for many texts, on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace hone::text {

// work(i) for every i below count, in any order; the first exception goes to the caller. threads: 0 takes as many as
// the process may use.
void in_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

}  // namespace hone::text
