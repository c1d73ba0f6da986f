// Work that a device remembers: given op by op once, then done again as often as wanted in one go.
#pragma once

#include <functional>
#include <memory>

namespace hone::ops {

// Not thread-safe.
class Recording {
 public:
  virtual ~Recording() = default;
  // The device remembers what `work` gives it, in place of what it remembered before, and does nothing now. It will
  // read and write where the tensors of `work` lie: those that were there must stay there, those that are made
  // meanwhile are good as long as this is, even when nobody holds them. REQUIRES: the same work was done once, so that
  // all is there that is made when it is used first. Throws what `work` throws, and where it reads from the host's
  // memory or waits for the device; then nothing is remembered.
  virtual void record(const std::function<void()>& work) = 0;
  // Another one, which remembers in the same memory: of what both have made, the tensors of the one that was done last
  // hold their values.
  virtual std::unique_ptr<Recording> beside() const = 0;
  // REQUIRES: something is remembered. After what the device was given before, on the current stream.
  virtual void replay() = 0;
};

}  // namespace hone::ops
