// How tensors travel between ranks: of the host by Gloo (gloo.h), of a device by what the build has for its kind.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hone/world.h"

namespace c10d {
class Store;
}

namespace hone::dist {

// In the store of all ranks: why one of them has failed while others may wait for it. Who finds it there waits no more.
inline constexpr const char* kFailedKey = "failed";

constexpr double kNoLimit = 30 * 24 * 3600.0;  // seconds: who is lost is known from beats (watchdog.h)

// As c10d wants times.
inline std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

// So far, in seconds: in which anything was on its way, and of them those in which whoever computes waited for it.
struct Times {
  double on_the_way = 0, waited = 0;
};

// Of one device. All ranks begin the same exchanges in the same order. Tensors are of bytes, contiguous, of one
// dimension, and lie on that device; nobody touches them until wait(). What the device was given before comes before
// the exchange, what it is given after wait() comes after it: the host waits only where it is the device.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Of `from` an equal part for each rank; into `to` what each has for this one, in rank order.
  virtual std::unique_ptr<Begun> begin_all_to_all(const Tensor& from, const Tensor& to) = 0;
  virtual std::unique_ptr<Begun> begin_gather(const Tensor& share, const Tensor& whole) = 0;
  virtual Times times() const = 0;
  // Whether the device has nothing to do until other ranks come. By any thread.
  virtual bool stands_still() const { return false; }
};

class HostExchange : public Exchange {
 public:
  virtual std::vector<std::string> gather(const std::string& own) = 0;  // texts, in rank order
  // Of some of these ranks, which find each other by `keys`: this one is their `rank`th. Its times are this one's, too.
  virtual std::unique_ptr<HostExchange> among(int rank, int size, c10d::Store& keys) = 0;
  // Of the same ranks by new ways, for when one has failed: what is under way by the old ones may never come. soon:
  // who does not come within the limit of silence is not waited for any longer, though it lives.
  virtual std::unique_ptr<HostExchange> anew(c10d::Store& keys, bool soon) = 0;
};

// What a kind of device makes its exchange of.
struct Joined {
  int rank = 0, size = 1;
  HostExchange& host;
  c10d::Store& store;  // which all ranks see, with keys of its own
};
struct DeviceExchange {
  std::function<std::string(at::Device)> kind;      // devices of one kind round alike
  std::function<std::string(at::Device)> identity;  // of the device itself: one text, whichever rank it has
  std::function<std::unique_ptr<Exchange>(at::Device, const Joined&)> make;
};

// Of the kinds that have a file src/dist/<kind>/exchange.cc; written by CMake. Null: it has none.
const DeviceExchange* built_exchange(std::string_view kind);
// For a kind that has none of the build's: of the whole process.
void set_exchange(const std::string& kind, DeviceExchange how);

}  // namespace hone::dist
