// The pretended device: LibTorch's place for backends of others (PrivateUse1), with a fallback to the CPU for all ops.
#include "device/pretend_device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tensor/device.h"

namespace hone::test {
namespace {

constexpr auto kPretend = c10::DeviceType::PrivateUse1;
thread_local c10::DeviceIndex current_index = 0;
c10::Device here() { return {kPretend, current_index}; }
c10::DeviceIndex count_of_devices() {
  static const char* const said = std::getenv(kPretendDevices);
  return static_cast<c10::DeviceIndex>(said ? std::atoi(said) : 4);
}
std::atomic<std::int64_t> waits{0};

class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = bytes > 0 ? std::aligned_alloc(64, (bytes + 63) / 64 * 64) : nullptr;
    if (bytes > 0) std::memset(data, 0xff, bytes);  // not a number, where nobody writes
    return {data, data, &std::free, here()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};
Memory memory;

// What is remembered: ops with what they were given and gave, and what they wrote over.
struct Work {
  std::function<void()> again;
  std::vector<at::Tensor> made;                                   // by it
  std::vector<std::pair<at::Tensor, at::Tensor>> written_before;  // what was there, to be put back
};
std::vector<Work>* remembered = nullptr;  // null: what is asked for is done
std::int64_t replays = 0;

void refuse_while_remembering(const char* what) {
  TORCH_CHECK(!remembered, "the pretended device: ", what, " while it remembers");
}

// Copies to the host that nobody has waited for: what is to come, and where.
std::vector<std::pair<at::Tensor, at::Tensor>> on_their_way;
void arrive() {
  for (const auto& [value, to] : on_their_way) std::memcpy(to.data_ptr(), value.data_ptr(), value.nbytes());
  on_their_way.clear();
}

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kPretend> {
  c10::DeviceIndex deviceCount() const noexcept override { return count_of_devices(); }
  c10::Device exchangeDevice(c10::Device next) const override {
    const c10::Device before = here();
    setDevice(next);
    return before;
  }
  c10::Device getDevice() const override { return here(); }
  void setDevice(c10::Device next) const override {
    TORCH_CHECK(next.index() < count_of_devices(), "the pretended device: there is no ", next);
    uncheckedSetDevice(next);
  }
  void uncheckedSetDevice(c10::Device next) const noexcept override {
    if (next.has_index()) current_index = next.index();
  }
  c10::Stream getStream(c10::Device device) const noexcept override { return stream_of(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return c10::Stream(c10::Stream::UNSAFE, with_index(device), 1);
  }
  c10::Stream exchangeStream(c10::Stream next) const noexcept override {
    return std::exchange(stream_of(next.device()), next);
  }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {
    ++waits;
    arrive();
  }
  void synchronizeDevice(c10::DeviceIndex) const override { arrive(); }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
  double elapsedTime(void*, void*, c10::DeviceIndex) const override { return 0; }

 private:
  static c10::Device with_index(c10::Device device) { return device.has_index() ? device : here(); }
  static c10::Stream& stream_of(c10::Device device) {  // the current one of this thread
    static thread_local std::map<c10::DeviceIndex, c10::Stream> current;
    const c10::Device own = with_index(device);
    return current.try_emplace(own.index(), c10::Stream::DEFAULT, own).first->second;
  }
};
const Guard guard;

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::kCPU); }
};

bool is_here(const at::Tensor& x) { return x.defined() && x.device().type() == kPretend; }

// The same memory, seen by the CPU.
at::Tensor as_host(const at::Tensor& x) {
  return at::from_blob(x.numel() > 0 ? x.data_ptr() : nullptr, x.sizes(), x.strides(),
                       at::TensorOptions().dtype(x.scalar_type()));
}

at::Tensor strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type, c10::Device device) {
  const c10::DeviceGuard current(device);
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_strided_generic(sizes, strides, &memory, keys, type);
}

at::Tensor from_host(const at::Tensor& x, c10::Device device) {
  const at::Tensor made = strided(x.sizes(), x.strides(), x.scalar_type(), device);
  as_host(made).copy_(x);
  return made;
}

// Arguments of the device, as the CPU sees them; what each of these is.
class Arguments {
 public:
  Arguments(const c10::OperatorHandle& op, torch::jit::Stack* stack) : op_(op) {
    const std::size_t count = op.schema().arguments().size();
    for (auto at = stack->end() - static_cast<std::ptrdiff_t>(count); at != stack->end(); ++at) {
      c10::IValue& value = *at;
      if (value.isTensor()) {
        value = seen(value.toTensor());
      } else if (value.isTensorList()) {
        std::vector<at::Tensor> all;
        for (const at::Tensor& x : value.toTensorVector()) all.push_back(seen(x));
        value = c10::List<at::Tensor>(all);
      } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> all;
        for (const std::optional<at::Tensor>& x : value.toOptionalTensorVector())
          all.push_back(x ? std::optional(seen(*x)) : x);
        value = std::move(all);
      } else if (value.isDevice() && value.toDevice().type() == kPretend) {
        if (value.toDevice().has_index()) device_ = value.toDevice();
        value = c10::Device(c10::kCPU);
      }
    }
  }

  // A result: what was given, if it is that; else a new one.
  at::Tensor given_back(const at::Tensor& result) const {
    if (!result.defined()) return result;
    for (const auto& [given, seen] : pairs_)
      if (result.unsafeGetTensorImpl() == seen.unsafeGetTensorImpl()) {
        if (result.sizes() != given.sizes()) grow(given, result);
        return given;
      }
    return from_host(result, device_);
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw std::logic_error("the pretended device, " + c10::toString(op_.operator_name()) + ": " + why);
  }

 private:
  at::Tensor seen(const at::Tensor& x) {
    if (!x.defined() || (!is_here(x) && x.dim() == 0)) return x;  // a number of the host
    if (!is_here(x)) refuse("a tensor of the device beside one of the host");
    if (!pairs_.empty() && x.device() != device_) refuse("tensors of two devices");
    device_ = x.device();
    pairs_.emplace_back(x, x.numel() > 0 ? as_host(x) : at::empty(x.sizes(), x.options().device(at::kCPU)));
    return pairs_.back().second;
  }

  // What ops give others to put their result into.
  void grow(const at::Tensor& given, const at::Tensor& result) const {
    if (given.numel() > 0) refuse("it resizes what holds something");
    const std::size_t bytes = result.nbytes();
    c10::StorageImpl* const storage = given.storage().unsafeGetStorageImpl();
    const c10::DeviceGuard current(device_);
    storage->set_data_ptr_noswap(memory.allocate(bytes));
    storage->set_nbytes(bytes);
    given.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides());
    as_host(given).copy_(result);
  }

  const c10::OperatorHandle& op_;
  c10::Device device_ = here();  // of what it is given
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

void do_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Arguments arguments(op, stack);
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  } catch (const std::exception& error) {
    arguments.refuse(error.what());
  }
  const auto& returns = op.schema().returns();
  for (std::size_t i = 0; i < returns.size(); ++i) {
    c10::IValue& value = (*stack)[stack->size() - returns.size() + i];
    const c10::AliasInfo* alias = returns[i].alias_info();
    if (alias && !alias->isWrite()) arguments.refuse("a view that it does not know");
    if (value.isTensor()) {
      value = arguments.given_back(value.toTensor());
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> all;
      for (const at::Tensor& x : value.toTensorVector()) all.push_back(arguments.given_back(x));
      value = c10::List<at::Tensor>(all);
    }
  }
}

std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
  if (value.isTensor() && is_here(value.toTensor())) return {value.toTensor()};
  if (value.isTensorList()) return value.toTensorVector();
  return {};
}

bool same_memory(const at::Tensor& x, const at::Tensor& y) { return x.storage().data() == y.storage().data(); }

// Done now, so that results have their sizes; when all is remembered, none of it will have been.
void remember(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Work work;
  const auto& taken = op.schema().arguments();
  const torch::jit::Stack given(stack->end() - static_cast<std::ptrdiff_t>(taken.size()), stack->end());
  for (std::size_t i = 0; i < taken.size(); ++i)
    if (const c10::AliasInfo* alias = taken[i].alias_info(); alias && alias->isWrite())
      for (const at::Tensor& x : tensors_in(given[i])) work.written_before.emplace_back(x, as_host(x).clone());
  do_on_host(op, stack);
  const std::size_t count = op.schema().returns().size();
  std::vector<std::vector<at::Tensor>> results;
  for (std::size_t i = 0; i < count; ++i) results.push_back(tensors_in((*stack)[stack->size() - count + i]));
  for (const auto& each : results)
    for (const at::Tensor& x : each) {
      const auto is_given = [&](const auto& pair) { return same_memory(pair.first, x); };
      if (std::none_of(work.written_before.begin(), work.written_before.end(), is_given)) work.made.push_back(x);
    }
  work.again = [op, given, results, count] {
    torch::jit::Stack again = given;
    do_on_host(op, &again);
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<at::Tensor> made = tensors_in(again[again.size() - count + i]);
      for (std::size_t k = 0; k < made.size(); ++k)
        if (!same_memory(made[k], results[i][k])) as_host(results[i][k]).copy_(as_host(made[k]));
    }
  };
  remembered->push_back(std::move(work));
}

void run_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  remembered ? remember(op, stack) : do_on_host(op, stack);
}

class PretendRecording final : public ops::Recording {
 public:
  void record(const std::function<void()>& work) override {
    works_.clear();
    remembered = &works_;
    try {
      work();
    } catch (...) {
      undo();
      works_.clear();
      throw;
    }
    undo();
  }
  std::unique_ptr<ops::Recording> beside() const override { return std::make_unique<PretendRecording>(); }
  void replay() override {
    ++replays;
    for (const Work& each : works_) each.again();
  }

 private:
  void undo() {
    remembered = nullptr;
    for (auto each = works_.rbegin(); each != works_.rend(); ++each) {
      for (const auto& [x, before] : each->written_before)
        before.sizes() == x.sizes() ? void(as_host(x).copy_(before)) : forget(x);
      for (const at::Tensor& x : each->made) forget(x);
    }
  }
  static void forget(const at::Tensor& x) {
    if (x.numel() > 0) std::memset(x.storage().mutable_data(), 0xff, x.storage().nbytes());
  }
  std::vector<Work> works_;
};

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard current(device && device->has_index() ? *device : here());
  return at::detail::empty_generic(sizes, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   at::dtype_or_default(type), format);
}
at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  return strided(sizes, strides, at::dtype_or_default(type), device && device->has_index() ? *device : here());
}
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (!is_here(to)) refuse_while_remembering("a value is asked for");
  if (!is_here(from)) refuse_while_remembering("a tensor comes from the host");
  const bool between = is_here(to) && is_here(from) && to.device() != from.device();
  TORCH_CHECK(!between, "the pretended device: a copy to another one");
  if (remembered) {
    Work work;
    work.written_before.emplace_back(to, as_host(to).clone());
    work.again = [from, to] { as_host(to).copy_(as_host(from)); };
    remembered->push_back(std::move(work));
  }
  if (!is_here(to) && non_blocking) {
    on_their_way.emplace_back(as_host(from).clone(), to);
    std::memset(to.data_ptr(), 0xff, to.nbytes());
    return to;
  }
  if (!is_here(to) || (!is_here(from) && !non_blocking)) ++waits;
  at::Tensor target = is_here(to) ? as_host(to) : to;
  target.copy_(is_here(from) ? as_host(from) : from);
  return to;
}
at::Tensor& set_storage(at::Tensor& x, at::Storage storage, std::int64_t offset, at::IntArrayRef sizes,
                        at::IntArrayRef strides) {
  TORCH_CHECK(storage.device() == x.device(), "the pretended device: memory of ", storage.device());
  x.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  x.unsafeGetTensorImpl()->set_storage_offset(offset);
  x.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return x;
}
at::Scalar local_scalar(const at::Tensor& x) {
  refuse_while_remembering("a value is asked for");
  ++waits;
  return at::native::_local_scalar_dense_cpu(as_host(x));
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_local_scalar_dense", local_scalar);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("unfold", at::native::unfold);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  // What other backends make of several ops, and rounds otherwise than the CPU's kernel.
  library.impl("silu_backward", torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

}  // namespace

void use_pretend_device() {
  static const bool once = [] {
    c10::SetAllocator(kPretend, &memory);
    c10::impl::device_guard_impl_registry[static_cast<std::size_t>(kPretend)] = &guard;
    c10::register_privateuse1_backend("pretend");
    static Hooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
    return true;
  }();
  (void)once;
}

std::vector<at::Device> devices_beside_the_host() {
  const auto all = [] {
    std::vector<at::Device> found = devices::all();
    std::erase_if(found, [](at::Device device) { return device.is_cpu(); });
    return found;
  };
  if (std::vector<at::Device> gpus = all(); !gpus.empty() && gpus[0].is_cuda()) return gpus;
  use_pretend_device();
  return all();
}

std::int64_t pretend_waits() { return waits; }

at::Tensor pretend_memory(const at::Tensor& x) {
  if (!is_here(x)) throw std::logic_error("the pretended device: a tensor of the host, where one of its own is wanted");
  return as_host(x);
}

std::unique_ptr<ops::Recording> make_pretend_recording() { return std::make_unique<PretendRecording>(); }
std::int64_t pretend_replays() { return replays; }

}  // namespace hone::test
