// The door between tensors and host memory: values as a span, bytes for files, tensors of given values, and reads that
// wait for a device, which are counted. Elsewhere only the ops and the optimizers look at a tensor's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace c10 {
struct Event;
}

namespace hone::host {

// What lies in host memory anyway, as it lies there. REQUIRES: a contiguous CPU tensor, of type T. Valid as long as the
// tensor's memory is.
template <class T>
std::span<const T> values(const at::Tensor& x);
template <class T>
std::span<T> mutable_values(const at::Tensor& x);
std::span<const std::byte> bytes(const at::Tensor& x);
std::span<std::byte> mutable_bytes(const at::Tensor& x);

// Fills x, contiguous, from outside: `write` gets its bytes, or those of a copy that then goes to x's device.
void fill_bytes(const at::Tensor& x, const std::function<void(std::span<std::byte>)>& write);

// A new CPU tensor.
template <class T>
at::Tensor tensor_of(std::span<const T> values, at::IntArrayRef shape);
template <class T>
at::Tensor tensor_of(const std::vector<T>& values, at::IntArrayRef shape) {
  return tensor_of(std::span<const T>(values), shape);
}

// Reads: they wait until the device has made the value, with all that it had to do before. They count as waits even
// where the tensor lies in host memory already, so that every machine counts what one with a device would wait for.
at::Tensor read(const at::Tensor& x);  // contiguous, on the CPU
double number(const at::Tensor& x);    // REQUIRES: one element; of the meta device, where there are no values: 0
std::vector<double> numbers(const std::vector<at::Tensor>& scalars);  // one wait for all

// The same in two parts: asked for, they are on their way to the host, whatever the device is given to do after them.
// A device that is told more in between never runs out of work while the host looks at them.
class Asked {
 public:
  explicit Asked(const std::vector<at::Tensor>& tensors);
  static Asked as_it_is(const at::Tensor& x);  // one, from where it lies and in its type: nothing is computed for it
  const at::Tensor& there() const { return there_; }  // their values where they are made, fp64, one after another
  std::vector<double> numbers() const;                // waits for them

 private:
  Asked() = default;
  void send();
  at::Tensor there_, here_;
  std::shared_ptr<const c10::Event> arrived_;  // null: they are there already
};

// Of what lies in host memory anyway: it waits for nothing. REQUIRES: one element.
double own_number(const at::Tensor& x);

std::int64_t waits();  // of this process so far, by all threads

}  // namespace hone::host
