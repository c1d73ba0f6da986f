// The door between tensors and host memory.
#include "tensor/host.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>

#include "hone/error.h"

namespace hone::host {
namespace {

std::atomic<std::int64_t> wait_count{0};

const at::Tensor& checked(const at::Tensor& x) {
  HONE_ASSERT(x.is_cpu() && x.is_contiguous());
  return x;
}
std::size_t count(const at::Tensor& x) { return static_cast<std::size_t>(x.numel()); }

}  // namespace

template <class T>
std::span<const T> values(const at::Tensor& x) {
  return {checked(x).const_data_ptr<T>(), count(x)};
}
template <class T>
std::span<T> mutable_values(const at::Tensor& x) {
  return {checked(x).mutable_data_ptr<T>(), count(x)};
}
template <class T>
at::Tensor tensor_of(std::span<const T> values, at::IntArrayRef shape) {
  at::Tensor made = at::empty(shape, at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
  HONE_ASSERT(values.size() == count(made));
  std::copy(values.begin(), values.end(), made.mutable_data_ptr<T>());
  return made;
}

#define HONE_HOST_TYPE(T)                                      \
  template std::span<const T> values<T>(const at::Tensor&);    \
  template std::span<T> mutable_values<T>(const at::Tensor&);  \
  template at::Tensor tensor_of<T>(std::span<const T>, at::IntArrayRef);
HONE_HOST_TYPE(float)
HONE_HOST_TYPE(double)
HONE_HOST_TYPE(c10::BFloat16)
HONE_HOST_TYPE(std::int64_t)
HONE_HOST_TYPE(std::int32_t)
HONE_HOST_TYPE(std::int8_t)
HONE_HOST_TYPE(std::uint8_t)
HONE_HOST_TYPE(bool)
#undef HONE_HOST_TYPE

std::span<const std::byte> bytes(const at::Tensor& x) {
  return {static_cast<const std::byte*>(checked(x).const_data_ptr()), x.nbytes()};
}
std::span<std::byte> mutable_bytes(const at::Tensor& x) {
  return {static_cast<std::byte*>(checked(x).mutable_data_ptr()), x.nbytes()};
}

void fill_bytes(const at::Tensor& x, const std::function<void(std::span<std::byte>)>& write) {
  if (x.is_cpu()) return write(mutable_bytes(x));
  const at::Tensor there = at::empty(x.sizes(), x.options().device(at::kCPU).requires_grad(false));
  write(mutable_bytes(there));
  x.detach().copy_(there);
}

at::Tensor read(const at::Tensor& x) {
  ++wait_count;
  if (x.is_meta()) return at::zeros(x.sizes(), x.options().device(at::kCPU).requires_grad(false));
  return x.detach().to(at::kCPU).contiguous();
}

double number(const at::Tensor& x) {
  ++wait_count;
  return own_number(x);
}

double own_number(const at::Tensor& x) { return x.is_meta() ? 0 : x.item<double>(); }

Asked::Asked(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return;
  std::vector<at::Tensor> wide;
  for (const at::Tensor& x : tensors) wide.push_back(x.detach().flatten().to(at::kDouble));
  there_ = at::cat(wide);
  send();
}

Asked Asked::as_it_is(const at::Tensor& x) {
  Asked made;
  made.there_ = x.detach();
  made.send();
  return made;
}

void Asked::send() {
  if (there_.is_cpu() || there_.is_meta()) return;
  here_ = at::empty(there_.sizes(), at::TensorOptions().dtype(there_.scalar_type()).pinned_memory(true));
  here_.copy_(there_, /*non_blocking=*/true);
  const auto arrived = std::make_shared<c10::Event>(there_.device().type());
  arrived->record(c10::impl::VirtualGuardImpl(there_.device().type()).getStream(there_.device()));
  arrived_ = arrived;
}

std::vector<double> Asked::numbers() const {
  if (!there_.defined()) return {};
  if (arrived_) {
    ++wait_count;
    arrived_->synchronize();
  }
  const at::Tensor all = (arrived_ ? here_ : read(there_)).to(at::kDouble).contiguous();
  const std::span<const double> made = values<double>(all);
  return {made.begin(), made.end()};
}

std::vector<double> numbers(const std::vector<at::Tensor>& scalars) { return Asked(scalars).numbers(); }

std::int64_t waits() { return wait_count; }

}  // namespace hone::host
