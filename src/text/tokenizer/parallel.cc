// Threads that take the next few texts from a common counter.
#include "text/tokenizer/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <vector>

#include "base/cpus.h"
#include "base/threads.h"

namespace hone::text {

void in_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  const std::size_t wanted =
      std::min(static_cast<std::size_t>(threads > 0 ? threads : threads_by_cpu(cpus())), count);
  const std::size_t step = std::clamp<std::size_t>(count / (16 * std::max<std::size_t>(wanted, 1)), 1, 64);
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t begin; (begin = next.fetch_add(step)) < count;) try {
        for (std::size_t i = begin; i < std::min(begin + step, count); ++i) work(i);
      } catch (...) {
        next = count;  // the others stop soon
        throw;
      }
  };
  std::vector<Worker> workers;
  for (std::size_t i = 1; i < wanted; ++i) workers.emplace_back("tokenize", run);
  std::exception_ptr failure;
  try {
    run();
  } catch (...) {
    failure = std::current_exception();
  }
  for (Worker& worker : workers) try {
      worker.join();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace hone::text
