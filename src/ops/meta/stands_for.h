// Whose memory a dry run is about.
#pragma once

#include <c10/core/Device.h>

namespace hone::ops {

struct Backend;

// While it lives, the meta device's primitives are about what this device's take, where that differs. Of this thread.
class StandsFor {
 public:
  explicit StandsFor(at::Device device);
  explicit StandsFor(const Backend& table);  // as long as this lives
  ~StandsFor();
  StandsFor(const StandsFor&) = delete;

 private:
  const Backend* before_;
};

}  // namespace hone::ops
