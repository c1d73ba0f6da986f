// How long a device stands still for other ranks; the host does not wait to know it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace hone::dist {

class DeviceWaits {
 public:
  explicit DeviceWaits(at::Device device);
  ~DeviceWaits();
  DeviceWaits(const DeviceWaits&) = delete;

  // `wait` lets the device's current stream wait for something of other ranks.
  void around(const std::function<void()>& wait);
  double seconds() const;        // of those that the device is done with
  bool is_in_one() const;        // now; by any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone::dist
