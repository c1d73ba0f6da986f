// What tensors take of memory, counted.
#pragma once

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <cstring>

namespace hone::test {

// Counts what CPU tensors take, for the rest of the process.
class Counted final : public at::Allocator {
 public:
  static Counted& installed() {
    static Counted counted;
    static const bool done = (c10::SetCPUAllocator(&counted, 255), true);
    (void)done;
    return counted;
  }
  // A block's size stands before it: data and context are one pointer, without which oneDNN's ops, as GELU, can have no
  // memory (Allocator::raw_allocate).
  at::DataPtr allocate(std::size_t bytes) override {
    auto* base = static_cast<char*>(c10::alloc_cpu(bytes + kBefore));
    std::memcpy(base, &bytes, sizeof bytes);
    note(used += static_cast<std::int64_t>(bytes));
    return {base + kBefore, base + kBefore, &give_back, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
  void restart() { most = used.load(); }

  static inline std::atomic<std::int64_t> used = 0, most = 0;

 private:
  static constexpr std::size_t kBefore = 64;  // as tensors are aligned
  static void note(std::int64_t now) {
    for (std::int64_t before = most; now > before && !most.compare_exchange_weak(before, now);) continue;
  }
  static void give_back(void* pointer) {
    auto* base = static_cast<char*>(pointer) - kBefore;
    std::size_t bytes = 0;
    std::memcpy(&bytes, base, sizeof bytes);
    used -= static_cast<std::int64_t>(bytes);
    c10::free_cpu(base);
  }
};

}  // namespace hone::test
