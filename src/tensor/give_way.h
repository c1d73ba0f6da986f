// Makes OpenMP's threads sleep instead of spin while others need the processors.
#pragma once

#include <memory>

namespace hone {

// When another process takes a processor from one of this process's threads, the others, spinning, keep it from the
// rest: OpenMP's threads must sleep then. While one of these is alive, a background thread looks now and
// then, forty times a second while it must, whether threads of this process had to wait for a processor, and has
// OpenMP's threads sleep if so. Does nothing with one thread, where OMP_WAIT_POLICY or GOMP_SPINCOUNT say what is
// wanted, and where the system does not tell how long threads waited (/proc/self/task/*/schedstat). Several may be
// alive, in any thread.
class GiveWay {
 public:
  GiveWay();
  ~GiveWay();
  GiveWay(const GiveWay&) = delete;
  GiveWay& operator=(const GiveWay&) = delete;

  bool sleeping() const;  // whether OpenMP's threads are made to sleep at present

 private:
  class Watch;
  std::shared_ptr<Watch> watch_;
};

// When to sleep: when threads waited for a fifth of a processor's time, twice in a row, as many a daemon takes one for
// some milliseconds. Again and again it is tried whether they still would, ever more rarely while they do. Not
// thread-safe.
class GiveWayPolicy {
 public:
  // waited: seconds that threads waited for a processor since the last call, all together; elapsed: since then.
  // Returns seconds until the next call.
  double update(double waited, double elapsed);
  bool sleep() const { return sleep_; }

 private:
  bool sleep_ = false;
  int in_row_ = 0;
  double pause_ = 0, calm_ = 0;  // how long it slept last; since then
  double period_ = 0;            // until the next call, while awake
};

}  // namespace hone
