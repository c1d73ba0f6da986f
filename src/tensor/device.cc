// Devices by LibTorch's common interface to its backends.
#include "tensor/device.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::devices {
namespace {

using Kind = c10::DeviceType;

std::string name_of(Kind kind) { return c10::DeviceTypeName(kind, /*lower_case=*/true); }

int count_of(Kind kind) {
  return c10::impl::hasDeviceGuardImpl(kind) ? c10::impl::getDeviceGuardImpl(kind)->deviceCount() : 0;
}

// Of backends with devices of their own, the ones that LibTorch knows of.
constexpr std::array kAccelerators{Kind::CUDA, Kind::XPU, Kind::PrivateUse1};

std::optional<Kind> accelerator() {
  for (const Kind kind : kAccelerators)
    if (count_of(kind) > 0) return kind;
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& name, const std::string& option, const std::string& fact) {
  std::vector<std::string> there{"auto"};
  for (const at::Device device : all()) there.push_back(device.str());
  throw Error(ErrorKind::config, fmt::format("{}: got {}, {}", option, hone::quoted(name), fact))
      .hint("expected one of: " + list_names(there, 20));
}

at::Device parsed(const std::string& name, const std::string& option) {
  try {
    const at::Device device(name);
    if (device.is_cpu() && device.index() <= 0) return at::kCPU;
    for (const Kind kind : kAccelerators)
      if (device.type() == kind) return device;
  } catch (const c10::Error&) {  // said below
  }
  refuse(name, option, "which is no device");
}

c10::impl::VirtualGuardImpl backend(at::Device device) { return c10::impl::VirtualGuardImpl(device.type()); }

// The one for copies, made when it is asked for first.
c10::Stream aside(at::Device device) {
  static std::mutex lock;
  static std::map<std::string, c10::Stream> streams;
  const std::lock_guard held(lock);
  return streams.try_emplace(device.str(), backend(device).getStreamFromGlobalPool(device)).first->second;
}

c10::DeviceAllocator* allocator(at::Device device) {
  if (device.is_cpu()) return nullptr;
  auto* found = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  return found && found->initialized() ? found : nullptr;
}

std::atomic<bool> same_bits{true};
std::atomic<std::int64_t> sent_so_far{0};

std::string there_are(at::Device device, int count) {
  return fmt::format("this machine has {}", counted(count, name_of(device.type()) + " device"));
}

// A process that sees one device alone has been given it by its launcher, or all have: ranks find out which when they
// meet (dist/collectives.h).
at::Device of_rank(const LocalRank& own, at::Device device, int count, const std::string& option) {
  const std::string kind = name_of(device.type());
  if (device.has_index())
    throw Error(ErrorKind::config, fmt::format("{}: got {}, expected {}: each of several ranks has a device of its own",
                                               option, device.str(), kind))
        .hint("a rank takes the one of its number on its machine; CUDA_VISIBLE_DEVICES says which are counted");
  const int wanted = std::max(own.size, own.rank + 1);
  if (count > 1 && wanted > count)
    throw Error(ErrorKind::config, fmt::format("{}: {} on this machine want a {} device each, but {}", option,
                                               counted(wanted, "rank"), kind, there_are(device, count)))
        .hint(fmt::format("start {} on each machine, or train on the processors with {}=cpu", counted(count, "rank"),
                          option));
  return {device.type(), static_cast<c10::DeviceIndex>(count == 1 ? 0 : own.rank)};
}

}  // namespace

std::vector<at::Device> all() {
  std::vector<at::Device> there{at::kCPU};
  for (const Kind kind : kAccelerators)
    for (int i = 0; i < count_of(kind); ++i) there.emplace_back(kind, static_cast<c10::DeviceIndex>(i));
  return there;
}

at::Device choose(const std::string& name, const std::string& option, const std::optional<LocalRank>& of_job) {
  const std::optional<Kind> found = accelerator();
  if (name == "auto" && !found) return at::kCPU;
  const at::Device device = name == "auto" ? at::Device(*found) : parsed(name, option);
  if (device.is_cpu()) return device;
  const int count = count_of(device.type());
  if (!c10::impl::hasDeviceGuardImpl(device.type()))
    refuse(name, option, fmt::format("for which hone was not built{}",
                                     device.is_cuda() ? " (HONE_CUDA=1 ./dev build makes one that is)" : ""));
  if (count == 0) refuse(name, option, "but no such device was found in this machine");
  if (of_job) return of_rank(*of_job, device, count, option);
  if (device.index() >= count) refuse(name, option, fmt::format("but {}", there_are(device, count)));
  return device.has_index() ? device : at::Device(device.type(), 0);
}

void make_current(at::Device device) {
  if (!device.is_cpu()) backend(device).setDevice(device);
}

void synchronize(at::Device device) {
  if (!device.is_cpu()) backend(device).synchronizeDevice(device.index());
}

void round_products(bool rounded) { at::globalContext().setAllowTF32CuBLAS(rounded); }

void want_same_bits(bool wanted) { same_bits = wanted; }
bool same_bits_wanted() { return same_bits; }

std::optional<Memory> memory(at::Device device) {
  c10::DeviceAllocator* const own = allocator(device);
  if (!own) return std::nullopt;
  const auto [free, total] = own->getMemoryInfo(device.index());
  const c10::CachingDeviceAllocator::DeviceStats stats = own->getDeviceStats(device.index());
  const c10::CachingAllocator::Stat& used = stats.allocated_bytes[0];  // of all pools
  return Memory{free, total, static_cast<std::uint64_t>(used.current), static_cast<std::uint64_t>(used.peak)};
}

void reset_peak(at::Device device) {
  if (c10::DeviceAllocator* const own = allocator(device)) own->resetPeakStats(device.index());
}

std::vector<at::Tensor> copied(const std::vector<at::Tensor>& tensors, at::Device device) {
  std::vector<at::Tensor> made;
  if (device.is_cpu() || device.is_meta()) {
    for (const at::Tensor& x : tensors) made.push_back(x.defined() ? x.to(device) : x);
    return made;
  }
  const c10::impl::VirtualGuardImpl own = backend(device);
  const c10::Stream now = own.getStream(device), beside = aside(device);
  c10::Event arrived(device.type());
  {
    const c10::StreamGuard guard(beside);
    for (const at::Tensor& x : tensors)
      made.push_back(x.defined() && x.is_cpu() ? x.pin_memory().to(device, /*non_blocking=*/true) : x);
    arrived.record(beside);
  }
  arrived.block(now);
  for (const at::Tensor& x : made)
    if (x.defined()) own.recordDataPtrOnStream(x.storage().data_ptr(), now);
  return made;
}

at::Tensor sent(const at::Tensor& x, at::Device device) {
  if (!x.is_cpu() || device.is_cpu() || device.is_meta()) return x.to(device);
  ++sent_so_far;
  return x.pin_memory().to(device, /*non_blocking=*/true);
}

std::int64_t sends() { return sent_so_far; }

}  // namespace hone::devices
