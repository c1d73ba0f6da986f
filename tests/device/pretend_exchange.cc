// The pretended library.
#include "device/pretend_exchange.h"

#include <ATen/ATen.h>

#include <cstring>
#include <stdexcept>

#include "device/pretend_device.h"
#include "dist/exchange.h"

namespace hone::test {
namespace {

using at::Tensor;

// Arrives in a room of its own, and where it belongs when it is waited for.
class OnItsWay final : public Begun {
 public:
  OnItsWay(std::unique_ptr<Begun> begun, const Tensor& from, const Tensor& to, Tensor sent, Tensor arrived)
      : begun_(std::move(begun)),
        from_(from),
        to_(to),
        there_(from.data_ptr()),
        room_(to.data_ptr()),
        sent_(std::move(sent)),
        arrived_(std::move(arrived)) {
    std::memset(to_.data_ptr(), 0xff, to_.nbytes());
  }
  void wait() override {
    begun_->wait();
    if (from_.data_ptr() != there_ || to_.data_ptr() != room_ || !at::equal(pretend_memory(from_), sent_))
      throw std::logic_error("the pretended exchange: a tensor was touched on its way");
    pretend_memory(to_).copy_(arrived_);
  }

 private:
  std::unique_ptr<Begun> begun_;
  Tensor from_, to_;
  const void *there_, *room_;
  Tensor sent_, arrived_;
};

class PretendExchange final : public dist::Exchange {
 public:
  explicit PretendExchange(dist::HostExchange& host) : host_(host) {}
  std::unique_ptr<Begun> begin_all_to_all(const Tensor& from, const Tensor& to) override {
    return begin(from, to, [&](const Tensor& own, const Tensor& all) { return host_.begin_all_to_all(own, all); });
  }
  std::unique_ptr<Begun> begin_gather(const Tensor& share, const Tensor& whole) override {
    return begin(share, whole, [&](const Tensor& own, const Tensor& all) { return host_.begin_gather(own, all); });
  }
  dist::Times times() const override { return {}; }

 private:
  template <class Call>
  static std::unique_ptr<Begun> begin(const Tensor& from, const Tensor& to, const Call& call) {
    const Tensor sent = pretend_memory(from).clone(), arrived = at::empty_like(pretend_memory(to));
    return std::make_unique<OnItsWay>(call(sent, arrived), from, to, sent, arrived);
  }
  dist::HostExchange& host_;
};

}  // namespace

void use_pretend_exchange() {
  dist::DeviceExchange how;
  how.kind = [](at::Device) { return std::string("pretend"); };
  how.identity = [](at::Device device) { return device.str(); };
  how.make = [](at::Device, const dist::Joined& joined) { return std::make_unique<PretendExchange>(joined.host); };
  dist::set_exchange("pretend", std::move(how));
}

}  // namespace hone::test
