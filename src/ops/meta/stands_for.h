// Whose memory a dry run is about.
#pragma once

#include <c10/core/Device.h>

namespace hone::ops {

// While it lives, the meta device's primitives are about what this device's take, where that differs. Of this thread.
class StandsFor {
 public:
  explicit StandsFor(at::Device device);
  ~StandsFor();
  StandsFor(const StandsFor&) = delete;

 private:
  at::DeviceType before_;
};

}  // namespace hone::ops
