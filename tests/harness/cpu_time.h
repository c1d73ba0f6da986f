// Processor time of work that one thread does: who else is busy on the machine does not count. For tests that tell work
// of a sensible size from work that explodes; how fast something is belongs in bench/.
#pragma once

#include <ctime>

namespace hone::test {

template <class Work>
double cpu_seconds_of(Work&& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double begin = now();
  work();
  return now() - begin;
}

}  // namespace hone::test
