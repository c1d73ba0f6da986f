// A factor of a product as it lies in memory, and room that threads keep for packing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace hone::ops::cpu_table {

enum class Pages { usual, large };

// Memory of a thread that stays when it is big enough. On large pages, if it is to be and is of some size: a step of
// a panel by AMX is half of a small page, and the panels at hand are more of these than the first table of them holds.
class Room {
 public:
  explicit Room(Pages pages = Pages::usual) : pages_(pages) {}
  template <class T>
  T* get(std::int64_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes > size_) make(bytes);
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  static constexpr std::size_t kLargePage = 2 << 20, kLeastOnLarge = 256 << 10;

  void make(std::size_t bytes) {
    const std::size_t unit = pages_ == Pages::large && bytes >= kLeastOnLarge ? kLargePage : 64;
    size_ = 0;
    memory_.reset();  // first, so that the two do not exist together
    bytes = (bytes + unit - 1) / unit * unit;
    memory_.reset(static_cast<char*>(std::aligned_alloc(unit, bytes)));
    if (!memory_) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    if (unit == kLargePage) madvise(memory_.get(), bytes, MADV_HUGEPAGE);
#endif
    size_ = bytes;
  }

  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  Pages pages_;
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
