// What tensors take of memory, counted.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <memory>

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
  at::DataPtr allocate(std::size_t bytes) override {
    auto* block = new Block{inner_->allocate(bytes), bytes};
    note(used += static_cast<std::int64_t>(bytes));
    return {block->memory.get(), block, &give_back, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
  void restart() { most = used.load(); }

  static inline std::atomic<std::int64_t> used = 0, most = 0;

 private:
  struct Block {
    at::DataPtr memory;
    std::size_t bytes;
  };
  static void note(std::int64_t now) {
    for (std::int64_t before = most; now > before && !most.compare_exchange_weak(before, now);) continue;
  }
  static void give_back(void* pointer) {
    const std::unique_ptr<Block> block(static_cast<Block*>(pointer));
    used -= static_cast<std::int64_t>(block->bytes);
  }
  at::Allocator* inner_ = c10::GetDefaultCPUAllocator();
};

}  // namespace hone::test
