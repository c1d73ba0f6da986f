// NCCL, by LibTorch's process group: tensors of GPUs.
#include "dist/exchange.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <fmt/format.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/debug.h>

#include "base/sections.h"
#include "base/signals.h"
#include "dist/device_waits.h"
#include "dist/peer_call.h"

namespace hone::dist {
namespace {

using Group = c10d::ProcessGroupNCCL;

// LibTorch has a watchdog of its own for NCCL, which ends the process where an exchange takes long, a connection is
// closed, a GPU has an error, or it is itself held up, before ours (dist/watchdog.h) has said who is lost. What it is
// to do it reads from the environment when a group is made.
void leave_it_to_our_watchdog() {
  for (const char* name :
       {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_DESYNC_DEBUG",
        "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_PROPAGATE_ERROR",
        "TORCH_NCCL_RETHROW_CUDA_ERRORS"})
    ::setenv(name, "0", 1);
  c10d::setDebugLevel(c10d::DebugLevel::Off);  // else it is to compare ranks, and ends them
}

// Of what NCCL says the last error, which stands behind lines about how to find it.
std::string last_error(const std::string& all) {
  const std::string mark = "Last error:\n";
  const std::size_t at = all.find(mark);
  const std::string from = at == std::string::npos ? all : all.substr(at + mark.size());
  return from.substr(0, from.find('\n'));
}

class Nccl final : public Exchange {
 public:
  Nccl(at::Device device, const Joined& joined) : waits_(device) {
    const BlockSignals blocked;  // in its threads
    leave_it_to_our_watchdog();
    auto options = Group::Options::create();
    options->timeout = milliseconds(kNoLimit);
    auto keys = c10::make_intrusive<c10d::PrefixStore>(
        "nccl", c10::intrusive_ptr<c10d::Store>::unsafe_reclaim_from_nonowning(&joined.store));
    try {
      group_ = c10::make_intrusive<Group>(std::move(keys), joined.rank, joined.size, std::move(options));
      group_->eagerConnectSingleDevice(device);
    } catch (const std::exception& error) {
      throw Error(ErrorKind::peer,
                  fmt::format("{}: NCCL cannot connect {} ranks: {}", device.str(), joined.size,
                              last_error(error.what())))
          .hint("NCCL_DEBUG=INFO says what it tried; --trainer.device=cpu trains on the processors");
    }
  }
  // Not taken down together with the others: one that is gone would not come.
  ~Nccl() override { group_->abort(); }

  std::unique_ptr<Begun> begin_all_to_all(const Tensor& from, const Tensor& to) override {
    Tensor given = from, into = to;
    std::vector<std::int64_t> even_splits;
    return begin("all-to-all", [&] { return group_->alltoall_base(into, given, even_splits, even_splits); });
  }
  std::unique_ptr<Begun> begin_gather(const Tensor& share, const Tensor& whole) override {
    Tensor given = share, into = whole;
    return begin("all-gather", [&] { return group_->_allgather_base(into, given); });
  }
  // On its way is what NCCL's stream does, of which nobody is told when it ends.
  Times times() const override { return {waits_.seconds(), waits_.seconds()}; }
  bool stands_still() const override { return waits_.is_in_one(); }

 private:
  class Queued final : public Begun {
   public:
    Queued(Nccl& all, const char* what, c10::intrusive_ptr<c10d::Work> work)
        : all_(all), what_(what), work_(std::move(work)) {}
    // The GPU's current stream waits for NCCL's; the host does not.
    void wait() override {
      const sections::Timed section(sections::Section::ranks);
      peer_call(what_, [&] { return all_.waits_.around([&] { work_->wait(); }), 0; });
    }

   private:
    Nccl& all_;
    const char* what_;
    c10::intrusive_ptr<c10d::Work> work_;
  };

  template <class Call>
  std::unique_ptr<Begun> begin(const char* what, const Call& call) {
    return std::make_unique<Queued>(*this, what, peer_call(what, call));
  }

  c10::intrusive_ptr<Group> group_;
  DeviceWaits waits_;
};

std::string capability_of(at::Device device) {
  const cudaDeviceProp& properties = *at::cuda::getDeviceProperties(device.index());
  return fmt::format("a GPU of compute capability {}.{}", properties.major, properties.minor);
}

// Of the GPU itself, whatever number processes see it by.
std::string uuid_of(at::Device device) {
  const cudaDeviceProp& properties = *at::cuda::getDeviceProperties(device.index());
  std::string text = std::string(properties.name) + " ";
  for (const char byte : properties.uuid.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

const DeviceExchange& cuda_exchange() {
  static const DeviceExchange made{
      capability_of, uuid_of,
      [](at::Device device, const Joined& joined) { return std::make_unique<Nccl>(device, joined); }};
  return made;
}

}  // namespace hone::dist
