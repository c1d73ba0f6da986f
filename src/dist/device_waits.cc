// Events before and after what a device waits for.
#include "dist/device_waits.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <deque>
#include <mutex>

namespace hone::dist {

struct DeviceWaits::State {
  explicit State(at::Device given) : device(given), backend(given.type()) {}

  struct Wait {
    c10::Event before, after;
  };

  // Those that are over are added up.
  void settle() {
    for (; !waits.empty() && waits.front().after.query(); waits.pop_front())
      seconds += waits.front().before.elapsedTime(waits.front().after) / 1000;
  }

  const at::Device device;
  const c10::impl::VirtualGuardImpl backend;
  std::mutex mutex;  // events are not thread-safe
  std::deque<Wait> waits;
  double seconds = 0;
};

DeviceWaits::DeviceWaits(at::Device device) : state_(std::make_unique<State>(device)) {}
DeviceWaits::~DeviceWaits() = default;

void DeviceWaits::around(const std::function<void()>& wait) {
  const auto timed = [&] { return c10::Event(state_->device.type(), c10::EventFlag::BACKEND_DEFAULT); };
  State::Wait made{timed(), timed()};
  made.before.record(state_->backend.getStream(state_->device));
  wait();
  made.after.record(state_->backend.getStream(state_->device));
  const std::lock_guard lock(state_->mutex);
  state_->waits.push_back(std::move(made));
}

double DeviceWaits::seconds() const {
  const std::lock_guard lock(state_->mutex);
  state_->settle();
  return state_->seconds;
}

bool DeviceWaits::is_in_one() const {
  try {
    const std::lock_guard lock(state_->mutex);
    state_->settle();
    return !state_->waits.empty() && state_->waits.front().before.query();
  } catch (const c10::Error&) {  // of the device: who computes with it hears of it as well
    return false;
  }
}

}  // namespace hone::dist
