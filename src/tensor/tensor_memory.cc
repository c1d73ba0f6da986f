// Where LibTorch's CPU tensors get their memory.
#include "tensor/tensor_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "base/arena.h"

namespace hone {
namespace {

Arena* arena = nullptr;  // never destroyed: tensors may outlive everything

void give_back(void* data) {
  if (!arena->give_back(data)) c10::free_cpu(data);
}

class RegionAllocator final : public at::Allocator {
 public:
  at::DataPtr allocate(std::size_t bytes) override {
    void* data = bytes >= kLeastInRegion ? arena->take(bytes) : nullptr;
    if (!data) data = c10::alloc_cpu(bytes);
    return {data, data, &give_back, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

bool use_tensor_region() {
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
  const std::size_t bytes =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* region = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) return false;
  arena = new Arena(region, bytes);
  static RegionAllocator allocator;
  c10::SetCPUAllocator(&allocator);
  return true;
#else
  return false;
#endif
}

std::size_t tensor_region_in_use() { return arena ? arena->in_use() : 0; }

}  // namespace hone
