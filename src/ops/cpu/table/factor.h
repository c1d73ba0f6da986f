// A factor of a product as it lies in memory, and room that threads keep for packing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace hone::ops::cpu_table {

// Memory of a thread that stays when it is big enough.
class Room {
 public:
  template <class T>
  T* get(std::int64_t count) {
    const std::size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
    if (bytes > size_) {
      memory_.reset();  // first, so that the two do not exist together
      memory_.reset(static_cast<char*>(std::aligned_alloc(64, bytes)));
      if (!memory_) throw std::bad_alloc();
      size_ = bytes;
    }
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> memory_;
  std::size_t size_ = 0;
};

// A matrix as it lies in memory; one of the strides is 1.
template <class T>
struct View {
  const T* data = nullptr;
  std::int64_t row = 0, col = 0;
  const T* at(std::int64_t i, std::int64_t j) const { return data + i * row + j * col; }
};

template <class T>
View<T> view_of(const at::Tensor& x) {
  return {x.const_data_ptr<T>(), x.stride(0), x.stride(1)};
}

}  // namespace hone::ops::cpu_table
